import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// A store with the keyspaces of the ordered fixture, and its expected contents.
///
/// A run is exact when every answer must be that of the model. A run with forged files is not exact
/// until the store verifies: it may lack entries, and may refuse an operation.
struct OrderedRun {
  private(set) var storage: MemoryStorage
  let configuration: Store.Configuration
  private(set) var store: Store
  var model: OrderedModel
  var isExact: Bool
  /// The values that the store may return while the run is not exact; nil when it may return any.
  var written: WrittenValues?
  /// Whether an operation that is not exact may have changed the contents.
  var isChanged = false
  /// Whether the log has lost records that a forged index does not name.
  var isCompacted = false
  /// The last acknowledged operation on each key that the run has written, when no later one
  /// failed.
  var acknowledged: [String: [Key: [UInt8]?]] = [:]

  /// Whether the store was closed and refuses to open again.
  var isOver = false

  private static let refusals = Refusals(
    codes: [.corrupted, .newerFormat, .poisoned], needsFile: false)
  /// A forged log can have used up all sequence numbers.
  private static let writeRefusals = Refusals(codes: [.limitExceeded], needsFile: false)
  private static let stepLimit = 20

  /// Returns nil when the store refuses to open.
  init?(
    _ files: StoreFiles, _ configuration: Store.Configuration, model: OrderedModel, isExact: Bool
  ) async throws {
    storage = try files.storage()
    self.configuration = configuration
    self.model = model
    self.isExact = isExact
    let storage = storage
    let opened = try await Self.attempt(isExact) {
      try Store(on: storage, at: "store", configuration: configuration)
    }
    guard let opened else { return nil }
    store = opened
  }

  mutating func steps(_ input: inout FuzzInput) async throws {
    var count = 0
    while !input.isAtEnd, !isOver, count < Self.stepLimit {
      do {
        try await step(&input)
      } catch let finding as Finding {
        throw Finding("operation \(count): \(finding)")
      }
      count += 1
    }
  }

  // MARK: Refusals

  private static func attempt<Result>(
    _ isExact: Bool, _ body: () async throws -> Result
  ) async throws -> Result? {
    if isExact { return try await body() }
    return try await refusals.attempt(body)
  }

  /// Returns nil when the store refuses, which it may do unless the run is exact.
  func attempt<Result>(_ body: () async throws -> Result) async throws -> Result? {
    try await Self.attempt(isExact, body)
  }

  /// Returns nil when the store refuses to write.
  mutating func attemptWrite<Result>(_ body: () async throws -> Result) async throws -> Result? {
    if !isExact { isChanged = true }
    if isExact, written != nil { return try await body() }
    return try await Self.writeRefusals.attempt { try await attempt(body) } ?? nil
  }

  /// Checks an entry that the store returned, when the run is not exact.
  func checkKnown(_ value: [UInt8], _ key: Key, in keyspace: String) throws {
    guard let written else { return }
    try require(
      written.contains(value, key, in: keyspace), "\(keyspace): \(key) never had \(value)")
  }

  // MARK: The whole store

  /// Checks that the store verifies. A forged store that does is exact from then on.
  mutating func verify() async throws {
    let report = try await store.verify()
    guard !isExact else {
      return try require(report.isSound, "it does not verify: \(report.problems)")
    }
    for problem in report.problems { try Self.refusals.check(problem) }
    guard report.isSound else { return }
    let found = try await OrderedModel(of: store)
    if isChanged {
      model = found
    } else {
      try require(found == model, "it verifies, and holds something else than the log")
    }
    isExact = true
  }

  /// Reads keyspaces in the order of the log, ordered ones as ranges, and some keys alone.
  func list() async throws {
    // A walk over the log reads the records of all keyspaces: one ordered keyspace stands for all.
    for name in ["users"] + OrderedFixture.hashed {
      let found = try await attempt { try await OrderedModel.contents(of: name, in: store) }
      if isExact { try require(found == model[name].values, "\(name): other contents") }
      for (key, value) in found ?? [:] where !isExact { try checkKnown(value, key, in: name) }
    }
    for name in OrderedFixture.ordered {
      try await checkRange(name, KeyRange(), .ascending, limit: .max)
      try await checkRange(name, KeyRange(), .descending, limit: .max)
      try await checkCount(name, KeyRange())
    }
    for name in OrderedFixture.ordered + OrderedFixture.hashed {
      let keys = model[name].keys
      for index in stride(from: 0, to: keys.count, by: 17) { try await get(keys[index], name) }
    }
  }

  /// Closes the store, and opens it again.
  ///
  /// - Returns: false when the store refuses to open.
  mutating func reopen() async throws -> Bool {
    let old = store
    _ = try await attempt { try await old.close() }
    let (storage, configuration) = (storage, configuration)
    let opened = try await attempt {
      try Store(on: storage, at: "store", configuration: configuration)
    }
    guard let opened else { return false }
    store = opened
    return true
  }

  /// Checks the whole store, closed and opened again, and closes it.
  mutating func end() async throws {
    if isOver { return }
    try await list()
    guard try await reopen() else { return }
    try await verify()
    try await list()
    let store = store
    _ = try await attempt { try await store.close() }
  }

  /// Checks that the log alone holds everything that was acknowledged.
  ///
  /// A closed store has a digest in its manifest. That of a store with a forged index can be false,
  /// and then the log alone is refused.
  func checkLog() async throws {
    guard !isCompacted else { return }
    var files = try StoreFiles(of: storage)
    files.removeCheckpoints()
    let storage = try files.storage()
    let healed = try await attempt {
      try Store(on: storage, at: "store", configuration: configuration)
    }
    guard let healed else { return }
    let found = try await OrderedModel(of: healed)
    if isExact || !isChanged { try require(found == model, "the log holds something else") }
    for (name, keys) in acknowledged {
      for (key, value) in keys {
        try require(found[name][key] == value, "\(name): the log lacks the write of \(key)")
      }
    }
    try await healed.close()
  }
}

// Checks of one answer.
extension OrderedRun {
  func get(_ key: Key, _ name: String) async throws {
    let keyspace = try store.keyspace(named: name)
    guard let value = try await attempt({ try await keyspace.value(forKey: key) }) else { return }
    if isExact {
      try require(value == model[name][key], "\(name): \(key) has another value")
    } else if let value {
      try checkKnown(value, key, in: name)
    }
  }

  func checkRange(
    _ name: String, _ range: KeyRange, _ order: KeyOrder, limit: Int
  ) async throws {
    let keyspace = try store.keyspace(named: name)
    let page = try await attempt {
      try await keyspace.entries(in: range, order: order, limit: limit)
    }
    guard let page else { return }
    try check(page.entries, name, model[name].keys(in: range, order, limit: limit))
  }

  /// Checks entries that the store returned.
  func check(_ entries: [Store.Entry], _ name: String, _ wanted: [Key]) throws {
    if isExact {
      try require(entries.map(\.key) == wanted, "\(name): a range has other keys")
      let values = model[name].values
      try require(
        entries.allSatisfy { $0.value == values[$0.key] }, "\(name): a range has other values")
    } else {
      for entry in entries { try checkKnown(entry.value, entry.key, in: name) }
    }
  }

  func check(_ entry: Store.Entry?, _ name: String, _ wanted: Key?) throws {
    try check([entry].compactMap { $0 }, name, [wanted].compactMap { $0 })
  }

  func checkCount(_ name: String, _ range: KeyRange) async throws {
    let keyspace = try store.keyspace(named: name)
    let count = try await attempt { try await keyspace.count(in: range) }
    let wanted = model[name].places(in: range).count
    if isExact { try require(count == wanted, "\(name): \(count ?? -1) keys, not \(wanted)") }
  }
}
