import MoraineEngine

/// The indexes that a repository declares, and the keyspace of their entries.
struct RepositoryIndexes<Model: Sendable>: Sendable {
  let definitions: [ModelIndex<Model>]
  /// The keyspace of the models.
  let indexed: Keyspace
  /// The system keyspace of the entries.
  let keyspace: Keyspace
  /// The version in which the program writes models.
  let version: Int
  /// The numbers of the definitions.
  let numbers: [UInt64]
  /// When a build in the background has failed last.
  let failure = IndexBuildFailure()

  /// Returns nil when no index is declared.
  ///
  /// - Throws: `.keyTooLarge` when the keyspace's name is too long.
  init?(
    _ definitions: [ModelIndex<Model>], of indexed: Keyspace, _ format: ModelFormat<Model>
  ) throws(StoreError) {
    if definitions.isEmpty { return nil }
    try self.init(declared: definitions, of: indexed, format)
  }

  /// Creates the indexes of a repository that declares none.
  init(of indexed: Keyspace, _ format: ModelFormat<Model>) throws(StoreError) {
    try self.init(declared: [], of: indexed, format)
  }

  private init(
    declared definitions: [ModelIndex<Model>], of indexed: Keyspace, _ format: ModelFormat<Model>
  ) throws(StoreError) {
    precondition(
      Set(definitions.map(\.name)).count == definitions.count,
      "two indexes of a repository have the same name")
    precondition(
      definitions.count <= IndexCatalog.limit / 2, "a repository has up to 64 indexes")
    self.definitions = definitions
    self.indexed = indexed
    version = format.version
    numbers = definitions.map { $0.number(format.version) }
    keyspace = try indexed.store.orderedKeyspace(named: IndexLayout.name(for: indexed.name))
  }

  /// Returns the values that a model has in all indexes.
  ///
  /// - Throws: `.keyTooLarge`.
  func row(of model: Model) throws(StoreError) -> IndexRow {
    var parts: [IndexRow.Part] = []
    parts.reserveCapacity(definitions.count)
    for index in 0..<definitions.count {
      parts.append(
        IndexRow.Part(index: numbers[index], values: try definitions[index].values(of: model)))
    }
    return IndexRow(parts)
  }

  /// Returns the catalog with the declared indexes.
  ///
  /// An index with the same name and another definition is replaced, unless the program that has
  /// added it knows later models than this one.
  func added(to catalog: IndexCatalog) throws(StoreError) -> IndexCatalog {
    var result = catalog
    // Also of an index whose definition does not depend on it: an index of earlier models is no
    // later one.
    let version = UInt32(clamping: version)
    for (index, number) in zip(definitions, numbers) {
      if let known = result.indexes.firstIndex(where: { $0.number == number }) {
        guard result.indexes[known].state == .dropped else { continue }
        if hasSuccessor(of: index, version, in: result) { continue }
        result.indexes[known].state = .building
        result.indexes[known].addition = .random(in: .min ... .max)
      } else {
        if hasSuccessor(of: index, version, in: result) { continue }
        result.indexes.append(
          IndexCatalog.Index(
            number: number, name: index.name, modelVersion: version, state: .building,
            addition: .random(in: .min ... .max)))
      }
      for other in result.indexes.indices
      where result.indexes[other].name == index.name && result.indexes[other].number != number {
        result.indexes[other].state = .dropped
      }
    }
    guard result.indexes.count <= IndexCatalog.limit else {
      throw StoreError(
        .limitExceeded,
        "the keyspace has \(result.indexes.count) indexes; the limit is \(IndexCatalog.limit)")
    }
    return result
  }

  /// Whether a program with later models has replaced an index.
  private func hasSuccessor(
    of index: ModelIndex<Model>, _ version: UInt32, in catalog: IndexCatalog
  ) -> Bool {
    catalog.indexes.contains {
      $0.name == index.name && $0.modelVersion > version && $0.state != .dropped
    }
  }

  /// Adds the declared indexes to the store's catalog, if they are not there.
  ///
  /// - Returns: the catalog.
  func register() async throws(StoreError) -> IndexCatalog {
    let catalog = try await readCatalog()
    guard try added(to: catalog) != catalog, !keyspace.store.isReadOnly else { return catalog }
    return try await keyspace.store.writeTyped { (batch) throws(StoreError) in
      let before = try batch.indexCatalog(in: self.keyspace)
      var catalog = try self.added(to: before)
      // An index of no models is complete. All later writes keep it so.
      if try !self.mayHaveModels(batch) {
        catalog.markReady(catalog.indexes.filter { $0.state == .building })
      }
      if catalog != before {
        try batch.set(catalog.bytes, forKey: IndexLayout.catalogKey, in: self.keyspace)
      }
      return catalog
    }
  }

  /// Whether there may be models, also such that have expired and are not deleted yet. A damaged
  /// record of any keyspace prevents counting.
  func mayHaveModels() async throws(StoreError) -> Bool {
    do throws(StoreError) { return try await indexed.statistics().liveBytes > 0 } catch {
      guard error.code == .corrupted else { throw error }
      return true
    }
  }

  /// Whether there may be models, for a batch. See ``mayHaveModels()``.
  private func mayHaveModels(_ batch: borrowing WriteBatch) throws(StoreError) -> Bool {
    do throws(StoreError) { return try batch.hasRecords(in: indexed) } catch {
      guard error.code == .corrupted else { throw error }
      return true
    }
  }

  func readCatalog() async throws(StoreError) -> IndexCatalog {
    try IndexCatalog(
      try await keyspace.value(forKey: IndexLayout.catalogKey), of: keyspace.name)
  }

  /// Changes the catalog as one step.
  ///
  /// - Returns: the catalog as the body has left it.
  @discardableResult
  func changeCatalog(
    _ body: @Sendable (inout IndexCatalog) throws(StoreError) -> Void
  ) async throws(StoreError) -> IndexCatalog {
    let keyspace = keyspace
    return try await keyspace.store.writeTyped { (batch) throws(StoreError) in
      let before = try batch.indexCatalog(in: keyspace)
      var catalog = before
      try body(&catalog)
      if catalog != before {
        try batch.set(catalog.bytes, forKey: IndexLayout.catalogKey, in: keyspace)
      }
      return catalog
    }
  }
}
