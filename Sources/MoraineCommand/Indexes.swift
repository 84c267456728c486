import ArgumentParser
import Foundation
import Moraine

struct Indexes: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints the indexes of the repositories of a store.",
    discussion: """
      One line for each index: the number of its entries, its state, the keyspace of
      its models, and its name. The state is "ready", "building", or "dropped" while
      its entries are being removed. Records that a program has written without
      entries are counted as "pending" for each keyspace.

      With --json one array of objects with keyspace, name, state, entryCount and
      pendingCount.

        moraine indexes shop.moraine --json | jq '.[] | select(.state != "ready")'
      """)
  @OptionGroup var store: StoreOptions
  @Flag(help: "Print one JSON array.") var json = false

  func run() async throws {
    let list = try await store.reading { store in try await ListedIndex.all(of: store) }
    if json {
      let objects: [JSONObject] = list.map { each in
        [
          "keyspace": each.keyspace, "name": each.name, "state": each.state,
          "entryCount": each.entryCount, "pendingCount": each.pendingCount,
        ]
      }
      return try Output.line(objects.json)
    }
    try Output.line("   entries  state     pending  keyspace, index")
    for each in list {
      var name: [UInt8] = []
      let keyspace = each.keyspace.isEmpty ? "(unnamed)" : each.keyspace
      Text.appendPrintable(Array("\(keyspace), \(each.name)".utf8), to: &name)
      try Output.line(
        Self.padded("\(each.entryCount)", 10) + "  "
          + each.state.padding(toLength: 8, withPad: " ", startingAt: 0)
          + Self.padded("\(each.pendingCount)", 9) + "  " + String(decoding: name, as: UTF8.self))
    }
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
