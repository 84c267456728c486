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
    let list = try await store.reading { store in try await Self.list(store) }
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

  private struct Listed: Sendable {
    let keyspace: String
    let name: String
    let state: String
    let entryCount: Int
    let pendingCount: Int
  }

  private static func list(_ store: Store) async throws -> [Listed] {
    var result: [Listed] = []
    let snapshot = try await store.snapshot()
    for statistics in try await store.keyspaceStatistics() {
      guard let indexed = IndexLayout.indexedName(of: statistics.name) else { continue }
      let entries = snapshot.keyspace(named: statistics.name)
      let catalog = try IndexCatalog(
        try entries.value(forKey: IndexLayout.catalogKey), of: indexed)
      let pending = try entries.count(in: IndexLayout.allPending)
      for index in catalog.indexes {
        let range = KeyRange.prefix(Key(IndexLayout.prefix(of: index.number)))
        result.append(
          Listed(
            keyspace: indexed, name: index.name, state: "\(index.state)",
            entryCount: try entries.count(in: range), pendingCount: pending))
      }
    }
    return result
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }
}
