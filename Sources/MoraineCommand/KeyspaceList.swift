import ArgumentParser
import Moraine

struct Keyspaces: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the keyspaces of a store.",
    discussion: """
      One line for each keyspace: the number of its keys, the bytes of their records,
      whether its index is ordered or hashed, and its name. The unnamed keyspace
      comes first.

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

/// The table of keyspaces that `keyspaces` and `stats` print.
enum KeyspaceList {
  static func json(_ keyspaces: [KeyspaceStatistics]) -> String { objects(keyspaces).json }

  static func objects(_ keyspaces: [KeyspaceStatistics]) -> [JSONObject] {
    keyspaces.map { keyspace in
      [
        "name": keyspace.name, "isOrdered": keyspace.isOrdered, "count": keyspace.count,
        "liveBytes": keyspace.liveBytes,
      ]
    }
  }

  static func text(_ keyspaces: [KeyspaceStatistics]) -> String {
    var lines = ["      keys        live  index    keyspace"]
    for keyspace in keyspaces {
      var name: [UInt8] = []
      Text.appendPrintable(Array(keyspace.name.utf8), to: &name)
      let count = Units.number(UInt64(keyspace.count))
      let bytes = Units.bytes(keyspace.liveBytes)
      lines.append(
        padded(count, 10) + padded(bytes, 12) + (keyspace.isOrdered ? "  ordered  " : "  hashed   ")
          + (keyspace.name.isEmpty ? "(unnamed)" : String(decoding: name, as: UTF8.self)))
    }
    return lines.joined(separator: "\n")
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}

extension Store {
  /// Returns how many of the counted keys have expired and were not deleted yet.
  func expiredCount(of statistics: Statistics) async throws(StoreError) -> Int {
    // Where the store is written at the same time, the second number may be the greater one.
    max(0, statistics.count - (try await count()))
  }
}
