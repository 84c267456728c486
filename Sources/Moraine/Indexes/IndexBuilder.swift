import MoraineEngine
import Synchronization

/// Adds the missing entries of a repository's indexes.
///
/// A build that is interrupted continues with the models whose rows lack the index. Queries do not
/// use an index before all models that existed at its beginning have their entries.
struct IndexBuilder<Model: Codable & Identifiable & Sendable>: Sendable
where Model.ID: Sendable {
  private static var pageCount: Int { 256 }

  let repository: LocalRepository<Model>
  let indexes: RepositoryIndexes<Model>

  private var store: Store { repository.keyspace.store }

  /// Removes the entries of dropped indexes, builds indexes, and adds the entries of models that
  /// another program has saved without them. Without declared indexes, it removes what is left of
  /// indexes that nothing needs.
  ///
  /// - Throws: `.notUnique` when two models have the same value in a unique index, which then
  ///   remains incomplete, while the others become ready; `.decodingFailed`, `.newerFormat` for a
  ///   model that cannot be read; the errors of reading and writing.
  func run() async throws(StoreError) {
    let catalog = try await indexes.register()
    for index in catalog.indexes where index.state == .dropped {
      try await removeEntries(of: index)
    }
    // A program that knows no index has nothing to add.
    guard !indexes.numbers.isEmpty else {
      if catalog.live.isEmpty { try await removeRemains() }
      return
    }
    var failures = Failures()
    let building = catalog.indexes.filter {
      $0.state == .building && indexes.numbers.contains($0.number)
    }
    if !building.isEmpty { try await build(building, &failures) }
    try await addPending(&failures)
    if let error = failures.last { throw error }
  }

  /// The models that could not be added.
  private struct Failures {
    /// The error of the last one; nil for none.
    var last: StoreError?
    /// The indexes that lack one of the models.
    var indexes: Set<UInt64> = []

    mutating func add(_ error: StoreError, in indexes: some Sequence<UInt64>) {
      last = error
      self.indexes.formUnion(indexes)
    }
  }

  private func removeEntries(of index: IndexCatalog.Index) async throws(StoreError) {
    let range = KeyRange.prefix(Key(IndexLayout.prefix(of: index.number)))
    while true {
      let keys = try await indexes.keyspace.keys(in: range, limit: Self.pageCount)
      guard try await remove(keys, of: index) else { return }
    }
  }

  /// Removes entries of a dropped index; the index itself when no entry is left.
  ///
  /// - Returns: whether entries may be left.
  private func remove(
    _ keys: [Key], of index: IndexCatalog.Index
  ) async throws(StoreError) -> Bool {
    let keyspace = indexes.keyspace
    return try await store.writeTyped { (batch) throws(StoreError) in
      var catalog = try batch.indexCatalog(in: keyspace)
      guard catalog[index.number]?.state == .dropped else { return false }
      for key in keys { try batch.removeValue(forKey: key, in: keyspace) }
      if !keys.isEmpty { return true }
      catalog.indexes.removeAll { $0.number == index.number }
      try batch.set(catalog.bytes, forKey: IndexLayout.catalogKey, in: keyspace)
      return false
    }
  }

  /// Removes the rows and the marks when no index is left that needs them, and the entries that no
  /// index of the catalog has. Indexes that are added afterwards are made from the models alone:
  /// a row or an entry that was wrong is gone.
  private func removeRemains() async throws(StoreError) {
    for part in [IndexLayout.allEntries, IndexLayout.allRows, IndexLayout.allPending] {
      var range = part
      while true {
        let keys = try await indexes.keyspace.keys(in: range, limit: Self.pageCount)
        guard let last = keys.last else { break }
        range = range.after(last, .ascending)
        guard try await removeRemains(keys) else { return }
      }
    }
  }

  /// - Returns: whether no index was added since; otherwise nothing is removed.
  private func removeRemains(_ keys: [Key]) async throws(StoreError) -> Bool {
    let keyspace = indexes.keyspace
    return try await store.writeTyped { (batch) throws(StoreError) in
      guard try batch.indexCatalog(in: keyspace).live.isEmpty else { return false }
      for key in keys { try batch.removeValue(forKey: key, in: keyspace) }
      return true
    }
  }

  /// Adds the entries of all models, also of those that have expired: they come back when the clock
  /// was wrong. An index that lacks a model afterwards does not become ready.
  private func build(
    _ building: [IndexCatalog.Index], _ failures: inout Failures
  ) async throws(StoreError) {
    let began = ContinuousClock.now
    let numbers = building.map(\.number)
    var (walk, done, hidesModels): (LiveWalk?, Int, Bool) = (LiveWalk(), 0, false)
    while let place = walk {
      let page = try await repository.keyspace.livePage(place)
      walk = page.next
      hidesModels = hidesModels || page.hidesRecords
      let missing = try await withoutEntries(page.entries, numbers)
      try await add(missing, &failures)
      done += page.entries.count
      store.report(
        .indexBuilding(keyspace: repository.keyspace.name, modelCount: done))
    }
    if hidesModels { try await addExpired(&failures) }
    let incomplete = failures.indexes
    let built = building.filter { !incomplete.contains($0.number) }
    if built.isEmpty { return }
    try await indexes.changeCatalog { (catalog) throws(StoreError) in
      catalog.markReady(built)
    }
    let nanoseconds = (ContinuousClock.now - began) / .nanoseconds(1)
    for index in built {
      store.report(
        .indexBuilt(
          keyspace: repository.keyspace.name, index: index.name, modelCount: done,
          elapsedNanoseconds: UInt64(nanoseconds)))
    }
  }

  /// Adds the entries of the models that have expired, after those of all others: they must not
  /// take a unique value from another model. One that cannot be in an index gets a mark.
  private func addExpired(_ failures: inout Failures) async throws(StoreError) {
    var walk: LiveWalk? = LiveWalk()
    while let place = walk {
      let page = try await repository.keyspace.livePage(place, areExpired: true)
      walk = page.next
      var ofPage = Failures()
      try await add(page.entries, &ofPage)
      if ofPage.indexes.isEmpty { continue }
      for entry in page.entries {
        var own = Failures()
        try await add([entry], &own)
        if own.indexes.isEmpty { continue }
        do throws(StoreError) {
          try await set([(entry.key, entry.sequence, IndexRow([]))], lacking: own.indexes)
        } catch {
          // A key that is too long for an index is too long for a mark.
          guard error.code == .keyTooLarge else { throw error }
          failures.add(error, in: own.indexes)
        }
      }
    }
  }

  /// Returns the models that lack an entry in one of some indexes. A row alone is no proof: an
  /// index that was removed and added again has lost entries that rows still list.
  private func withoutEntries(
    _ models: [Store.Entry], _ numbers: [UInt64]
  ) async throws(StoreError) -> [Store.Entry] {
    try await store.readingSnapshot { (snapshot) throws(StoreError) -> [Store.Entry] in
      let system = snapshot.keyspace(named: indexes.keyspace.name)
      var result: [Store.Entry] = []
      for model in models where try !hasEntries(model.key, numbers, system) { result.append(model) }
      return result
    }
  }

  private func hasEntries(
    _ key: Key, _ numbers: [UInt64], _ system: Store.Snapshot
  ) throws(StoreError) -> Bool {
    guard let bytes = try system.value(forKey: IndexLayout.rowKey(of: key)) else { return false }
    let row = try StoredIndexRow(bytes, of: key).row
    guard row.covers(numbers) else { return false }
    for entry in row.entries(for: key) where numbers.contains(entry.index) {
      guard try system.value(forKey: entry.recordKey) == entry.recordValue else { return false }
    }
    return true
  }

  /// Adds the entries of the models that have a mark.
  private func addPending(_ failures: inout Failures) async throws(StoreError) {
    var range = IndexLayout.allPending
    while true {
      let marks = try await indexes.keyspace.keys(in: range, limit: Self.pageCount)
      guard let last = marks.last else { return }
      range = range.after(last, .ascending)
      let entries = try await store.readingSnapshot {
        (snapshot) throws(StoreError) -> [Store.Entry] in try unfinished(marks, in: snapshot)
      }
      try await add(entries, &failures)
    }
  }

  /// Returns the models of some marks that lack an entry of a declared index.
  private func unfinished(
    _ marks: [Key], in snapshot: Store.Snapshot
  ) throws(StoreError) -> [Store.Entry] {
    let models = snapshot.keyspace(named: repository.keyspace.name)
    let system = snapshot.keyspace(named: indexes.keyspace.name)
    let live = try IndexCatalog(
      try system.value(forKey: IndexLayout.catalogKey), of: indexes.keyspace.name
    ).live
    var entries: [Store.Entry] = []
    for mark in marks {
      let key = IndexLayout.indexedKey(of: mark)
      // The mark of a model that lacks only an index that this program does not know stays.
      if let bytes = try system.value(forKey: IndexLayout.rowKey(of: key)) {
        let row = try StoredIndexRow(bytes, of: key).row
        if row.covers(live.filter(indexes.numbers.contains)), !row.covers(live) { continue }
      }
      if let entry = try models.entry(forKey: key) { entries.append(entry) }
    }
    return entries
  }

  /// Adds the entries of some models, as far as they were not saved again since.
  private func add(
    _ entries: [Store.Entry], _ failures: inout Failures
  ) async throws(StoreError) {
    if entries.isEmpty { return }
    var rows: [StoredRow] = []
    for entry in entries {
      do throws(StoreError) {
        let model = try repository.format.decode(entry.value, entry.key, repository.place)
        var parts: [IndexRow.Part] = []
        for (index, number) in zip(indexes.definitions, indexes.numbers) {
          do throws(StoreError) {
            parts.append(IndexRow.Part(index: number, values: try index.values(of: model)))
          } catch {
            failures.add(error, in: [number])
          }
        }
        rows.append((entry.key, entry.sequence, IndexRow(parts)))
      } catch {
        failures.add(error, in: indexes.numbers)
      }
    }
    do throws(StoreError) {
      try await set(rows)
    } catch {
      guard error.code == .notUnique || error.code == .keyTooLarge else { throw error }
      for row in rows { try await setEachPart(of: row, &failures) }
    }
  }

  /// The values of one model, and the number of the operation that has saved it.
  private typealias StoredRow = (key: Key, sequence: SequenceNumber, row: IndexRow)

  /// Adds one model to one index after the other: a model that cannot be in an index keeps neither
  /// other models out of that index nor itself out of the others.
  private func setEachPart(
    of row: StoredRow, _ failures: inout Failures
  ) async throws(StoreError) {
    for part in row.row.parts {
      do throws(StoreError) {
        try await set([(row.key, row.sequence, IndexRow([part]))])
      } catch {
        guard error.code == .notUnique || error.code == .keyTooLarge else { throw error }
        failures.add(error, in: [part.index])
      }
    }
  }

  /// - Parameter lacking: the indexes in which the models cannot be.
  private func set(
    _ rows: [StoredRow], lacking: Set<UInt64> = []
  ) async throws(StoreError) {
    let keyspace = repository.keyspace
    try await store.writeTyped { (batch) throws(StoreError) in
      for (key, sequence, row) in rows {
        _ = try batch.setRow(row, ofKey: key, in: keyspace, if: sequence, lacking: lacking)
      }
    }
  }
}

/// When the indexes of a repository could not be built last.
final class IndexBuildFailure: Sendable {
  /// The times that pass before queries begin the build again: what it met is likely to be still
  /// there. Each failure doubles the time.
  private static var pauses: ClosedRange<Duration> { .seconds(30)...(.seconds(3600)) }

  private struct State {
    var end: ContinuousClock.Instant?
    var pause = pauses.lowerBound
  }

  private let state = Mutex(State())

  /// Whether a build has failed a short time ago, and none has succeeded since.
  var isRecent: Bool { state.withLock { $0.end.map { $0 > .now } ?? false } }

  func set(_ hasFailed: Bool) {
    state.withLock { state in
      guard hasFailed else {
        state = State()
        return
      }
      state.end = .now + state.pause
      state.pause = min(state.pause * 2, Self.pauses.upperBound)
    }
  }
}

/// The keyspaces whose indexes a task of this process builds in the background.
enum IndexBuilds {
  /// The tasks, with whether another look was requested since the task began its last one.
  private static let running = Mutex<[Build: Bool]>([:])

  /// The indexes of one program. Another program may declare others for the same keyspace.
  private struct Build: Hashable {
    let keyspace: Keyspace
    let numbers: [UInt64]
  }

  /// Begins a build in the background, unless the same one is under way; that one then
  /// looks again.
  static func begin<Model>(_ builder: IndexBuilder<Model>) {
    let keyspace = builder.repository.keyspace
    let build = Build(keyspace: keyspace, numbers: builder.indexes.numbers)
    let isFirst = running.withLock { running in
      defer { running[build] = running[build] != nil }
      return running[build] == nil
    }
    guard isFirst else { return }
    Task.detached(priority: .utility) {
      repeat {
        do throws(StoreError) {
          try await builder.run()
          builder.indexes.failure.set(false)
        } catch {
          // Closing the store interrupts the build; the next opening continues it.
          if error.code != .closed, error.code != .suspended {
            builder.indexes.failure.set(true)
            keyspace.store.report(.indexBuildingFailed(keyspace: keyspace.name, error))
          }
        }
      } while looksAgain(at: build)
    }
  }

  /// Ends a task, unless it must look again.
  private static func looksAgain(at build: Build) -> Bool {
    running.withLock { running in
      guard running[build] == true else {
        running[build] = nil
        return false
      }
      running[build] = false
      return true
    }
  }
}

/// An index of a repository, as the store has it.
public struct IndexStatus: Hashable, Sendable {
  /// The name of the index.
  public let name: String
  /// Whether queries use the index. Otherwise it is being built, or its build has failed.
  public let isReady: Bool
  /// The number of entries.
  public let entryCount: Int
}

extension LocalRepository {
  /// Waits until all declared indexes are ready, and adds missing entries itself where necessary.
  /// The entries of indexes that ``removeIndex(named:)`` has removed are gone when this returns.
  ///
  /// A program need not call this: the indexes are built in the background, and queries are right,
  /// though slower, before they are ready.
  ///
  /// - Throws: `.notUnique` when two models have the same value in a unique index, with both keys;
  ///   `.decodingFailed`, `.newerFormat` for a model that cannot be decoded; the errors of
  ///   ``save(_:)``. An index that lacks a model stays incomplete; the others become ready.
  /// - Complexity: O(models).
  public nonisolated func buildIndexes() async throws(StoreError) {
    try await prepare()
    if let indexes { return try await IndexBuilder(repository: self, indexes: indexes).run() }
    // Something may be left of indexes that were removed. A keyspace with a longer name has none.
    let name = IndexLayout.name(for: keyspace.name)
    if keyspace.store.isReadOnly || name.utf8.count > Keyspace.nameLengthBytes { return }
    let removed = try RepositoryIndexes(of: keyspace, format)
    guard try await removed.keyspace.contains(IndexLayout.catalogKey) else { return }
    try await IndexBuilder(repository: self, indexes: removed).run()
  }

  /// Returns the declared indexes, as the store has them.
  ///
  /// - Throws: `.corrupted`, `.io`, `.closed`.
  public nonisolated func indexStatus() async throws(StoreError) -> [IndexStatus] {
    try await prepareToRead()
    guard let indexes else { return [] }
    let store = keyspace.store
    let mayAdd = !store.isReadOnly && !store.isFollowing
    // The first model adds the indexes, and they are complete then.
    let isEmpty = if mayAdd { try await !indexes.mayHaveModels() } else { false }
    return try await store.readingSnapshot {
      (snapshot) throws(StoreError) -> [IndexStatus] in
      let entries = snapshot.keyspace(named: indexes.keyspace.name)
      let catalog = try IndexCatalog(
        try entries.value(forKey: IndexLayout.catalogKey), of: indexes.keyspace.name)
      var areComplete = false
      if isEmpty { areComplete = try indexes.added(to: catalog) != catalog }
      var result: [IndexStatus] = []
      for (index, number) in zip(indexes.definitions, indexes.numbers) {
        let range = KeyRange.prefix(Key(IndexLayout.prefix(of: number)))
        let count = if catalog[number] == nil { 0 } else { try entries.count(in: range) }
        result.append(
          IndexStatus(
            name: index.name, isReady: areComplete || catalog[number]?.state == .ready,
            entryCount: count))
      }
      return result
    }
  }

  /// Removes an index that this program and all others no longer declare. Its entries are removed
  /// in the background; ``buildIndexes()`` waits for that.
  ///
  /// An index that is only left out of the declarations stays: an older program may need it, and
  /// each model that this program saves gets a mark for it.
  ///
  /// - Throws: `.invalidArgument` when the repository declares the index; the errors of
  ///   ``save(_:)``.
  public nonisolated func removeIndex(named name: String) async throws(StoreError) {
    try await prepare()
    let indexes =
      if let indexes { indexes } else { try RepositoryIndexes(of: keyspace, format) }
    guard !indexes.definitions.contains(where: { $0.name == name }) else {
      throw StoreError(
        .invalidArgument, "the index '\(name)' is declared by this repository", file: place)
    }
    guard try await indexes.keyspace.contains(IndexLayout.catalogKey) else { return }
    try await indexes.changeCatalog { (catalog) throws(StoreError) in
      catalog.drop(named: name)
    }
    IndexBuilds.begin(IndexBuilder(repository: self, indexes: indexes))
  }
}
