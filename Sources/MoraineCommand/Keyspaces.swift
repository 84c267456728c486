import ArgumentParser
import Moraine

struct Keyspaces: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the keyspaces of a store.",
    discussion: """
      One line for each keyspace: the number of its keys, the bytes of their records,
      whether its index is ordered or hashed, and its name. The unnamed keyspace comes
      first.

      With --json one array of objects with name, isOrdered, count and liveBytes.

        moraine keyspaces shop.moraine --json | jq '.[] | select(.isOrdered).name'
      """)
  @OptionGroup var store: StoreOptions
  @Flag(help: "Print one JSON array.") var json = false

  func run() async throws {
    let keyspaces = try await store.reading { store in try await store.keyspaceStatistics() }
    try Output.line(json ? KeyspaceList.json(keyspaces) : KeyspaceList.text(keyspaces))
  }
}
