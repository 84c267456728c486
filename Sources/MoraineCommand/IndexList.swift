import Moraine

/// An index of a store's repositories, as the commands show it.
struct ListedIndex: Sendable {
  /// The keyspace of the models.
  let keyspace: String
  let name: String
  let state: String
  let entryCount: Int
  /// Number of records of the keyspace that were written without entries.
  let pendingCount: Int

  /// Returns the indexes of all repositories of a store.
  static func all(of store: Store) async throws -> [ListedIndex] {
    var result: [ListedIndex] = []
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
          ListedIndex(
            keyspace: indexed, name: index.name, state: "\(index.state)",
            entryCount: try entries.count(in: range), pendingCount: pending))
      }
    }
    return result
  }
}
