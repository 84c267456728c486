import MoraineEngine
import MoraineStorage
import SystemPackage

/// Checks a store of forged files: it must open or throw an error, read or throw an error, and,
/// when it verifies, continue like any other store.
enum StoreProbe {
  private static let refusals: Set<StoreError.Code> = [.corrupted, .newerFormat]

  /// - Parameter keys: the keys to look up, whether or not the store knows them.
  static func run(
    _ files: StoreFiles, _ configuration: Store.Configuration, keys: [Key] = [],
    refusals: Set<StoreError.Code> = refusals
  ) async throws {
    let storage = try files.storage()
    let allowed = Refusals(codes: refusals)
    try await checkReadOnly(storage, configuration, allowed)
    // A directory that declares itself a backup is not written to, and a forged manifest can have
    // used up all numbers.
    let orUnwritable = Refusals(codes: refusals.union([.readOnly, .limitExceeded]))
    guard let store = try orUnwritable.attempt({ try open(storage, configuration) }) else { return }
    for key in keys { _ = try await allowed.attempt { try await store.value(forKey: key) } }
    guard let before = try await contents(store, allowed) else {
      // A part of the store cannot be read; closing is possible nevertheless.
      _ = try await allowed.attempt { try await store.close() }
      return
    }
    try await goOn(store, storage, configuration, before, allowed)
  }

  private static func open(
    _ storage: MemoryStorage, _ configuration: Store.Configuration
  ) throws(StoreError) -> Store {
    try Store(on: storage, at: "store", configuration: configuration)
  }

  /// Reading changes no file.
  private static func checkReadOnly(
    _ storage: MemoryStorage, _ configuration: Store.Configuration, _ allowed: Refusals
  ) async throws {
    let before = try StoreFiles(of: storage)
    var readOnly = configuration
    readOnly.isReadOnly = true
    if let store = try allowed.attempt({ try open(storage, readOnly) }) {
      _ = try await contents(store, allowed)
      try await store.close()
    }
    try require(try StoreFiles(of: storage).files == before.files, "a reader changed a file")
  }

  /// Returns nil when not all records can be read, or verifying finds a problem.
  private static func contents(
    _ store: Store, _ allowed: Refusals
  ) async throws -> [Key: [UInt8]]? {
    let report = try await store.verify()
    for problem in report.problems { try allowed.check(problem) }
    let listed: [Key: [UInt8]]? = try await allowed.attempt {
      var listed: [Key: [UInt8]] = [:]
      var repeated: Key?
      try await store.scan { entry in
        if listed.updateValue(entry.value, forKey: entry.key) != nil { repeated = entry.key }
        return true
      }
      try require(repeated == nil, "a key is listed twice")
      return listed
    }
    guard report.isSound else { return nil }
    guard let listed else { throw Finding("it verifies, and cannot be listed") }
    for (key, value) in listed {
      try require(
        try await store.value(forKey: key) == value, "a value is not the one that is listed")
    }
    return listed
  }

  /// Checks that a sound store can be written, closed, opened and compacted, and keeps its
  /// contents.
  private static func goOn(
    _ store: Store, _ storage: MemoryStorage, _ configuration: Store.Configuration,
    _ before: [Key: [UInt8]], _ allowed: Refusals
  ) async throws {
    var expected = before
    // A forged log can have used up all sequence numbers.
    let writing = Refusals(
      codes: allowed.codes.union([.valueTooLarge, .limitExceeded]), needsFile: false)
    let key: Key = "written by the fuzzer"
    guard try await writing.attempt({ try await store.set([1, 2, 3], forKey: key) }) != nil else {
      _ = try await writing.attempt { try await store.close() }
      return
    }
    expected[key] = [1, 2, 3]
    if let gone = before.keys.min(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) }),
      try await writing.attempt({ try await store.removeValue(forKey: gone) }) != nil
    {
      expected[gone] = nil
    }
    try await store.close()
    let second = try open(storage, configuration)
    let found = try await contents(second, allowed)
    try require(found == expected, "after writing, closing and opening it is something else")
    _ = try await second.compact()
    let compacted = try await contents(second, allowed)
    try require(compacted == expected, "after compacting it is something else")
    try await second.close()
    let third = try open(storage, configuration)
    let last = try await contents(third, allowed)
    try require(last == expected, "after compacting and opening it is something else")
    try await third.close()
  }
}

/// The errors that are an acceptable answer.
struct Refusals {
  let codes: Set<StoreError.Code>
  var needsFile = true

  func check(_ error: StoreError) throws(Finding) {
    try require(codes.contains(error.code), "an error of another kind: \(error)")
    try require(error.file != nil || !needsFile, "an error without a file: \(error)")
  }

  func attempt<Result>(_ body: () throws -> Result) throws -> Result? {
    do { return try body() } catch {
      guard let error = error as? StoreError else { throw error }
      try check(error)
      return nil
    }
  }

  nonisolated(nonsending) func attempt<Result>(
    _ body: () async throws -> Result
  ) async throws -> Result? {
    do { return try await body() } catch {
      guard let error = error as? StoreError else { throw error }
      try check(error)
      return nil
    }
  }
}
