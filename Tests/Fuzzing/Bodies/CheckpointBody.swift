import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

/// A sound store whose index checkpoint was changed.
///
/// Without forged checksums the store answers as if no checkpoint existed. With forged checksums it
/// may find too few keys, and reports that at the latest when it is verified. It never traps, never
/// hangs, and never returns a wrong value.
enum CheckpointBody {
  private static let isForged = FuzzFlags(rawValue: 1)
  private static let isPositional = FuzzFlags(rawValue: 2)
  private static let isWritten = FuzzFlags(rawValue: 4)

  private static let expected = ExpectedContents()

  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    var files = try FixtureStore.files()
    guard var bytes = files[FixtureStore.checkpointName] else { return }
    CheckpointEdits.apply(&input, to: &bytes)
    if flags.contains(isForged) { CheckpointEdits.mend(&bytes) }
    files[FixtureStore.checkpointName] = bytes
    var configuration = Store.Configuration.fuzzing(
      flags.contains(isPositional) ? .positional : .mapped)
    configuration.checkpointFloorBytes = 0
    let model = try await expected.get()
    if flags.contains(isForged) {
      try await checkForged(files, configuration, model, isWritten: flags.contains(isWritten))
    } else {
      try await checkDamaged(files, configuration, model, isWritten: flags.contains(isWritten))
    }
  }

  private static func checkDamaged(
    _ files: StoreFiles, _ configuration: Store.Configuration, _ model: [Key: [UInt8]],
    isWritten: Bool
  ) async throws {
    let storage = try files.storage()
    let store = try Store(on: storage, at: "store", configuration: configuration)
    var model = model
    if isWritten {
      for key in FixtureStore.keys[..<3] {
        model[key] = [9]
        try await store.set([9], forKey: key)
      }
      let key = FixtureStore.keys[5]
      let wasThere = model.removeValue(forKey: key) != nil
      try require(
        try await (store.removeValue(forKey: key) != nil) == wasThere, "a delete missed its key")
    }
    for key in FixtureStore.keys {
      try require(try await store.value(forKey: key) == model[key], "\(key) has another value")
    }
    let count = try await store.count()
    try require(count == model.count, "it counts \(count) keys, not \(model.count)")
    try require(try await listed(store) == model, "it lists something else")
    let report = try await store.verify()
    try require(report.isSound, "it does not verify: \(report.problems)")
    try await store.close()
    let second = try Store(on: storage, at: "store", configuration: configuration)
    try require(try await listed(second) == model, "opened again it is something else")
    try await second.close()
  }

  private static func checkForged(
    _ files: StoreFiles, _ configuration: Store.Configuration, _ model: [Key: [UInt8]],
    isWritten: Bool
  ) async throws {
    let storage = try files.storage()
    let allowed = Refusals(codes: [.corrupted, .newerFormat])
    let opened = try allowed.attempt {
      try Store(on: storage, at: "store", configuration: configuration)
    }
    guard let store = opened else { return }
    for key in FixtureStore.keys {
      let value = try await allowed.attempt { try await store.value(forKey: key) }
      // The value may be an older one: the forged index decides which records of the log count.
      if let value, let value, !value.isEmpty {
        try require(value.allSatisfy { $0 == value[0] }, "a value that was never written")
      }
    }
    if isWritten {
      for key in FixtureStore.keys {
        _ = try await allowed.attempt { try await store.set([7], forKey: key) }
        _ = try await allowed.attempt { try await store.removeValue(forKey: key) }
      }
      _ = try await allowed.attempt { try await store.compact() }
    }
    _ = try await allowed.attempt { try await listed(store) }
    for problem in try await store.verify().problems { try allowed.check(problem) }
    _ = try await allowed.attempt { try await store.close() }
    // The log is undamaged: without the checkpoint all answers are right again.
    guard !isWritten else { return }
    var healed = try StoreFiles(of: storage)
    for name in healed.files.keys where name.hasSuffix(".index") { healed[name] = nil }
    let last = try Store(on: try healed.storage(), at: "store", configuration: configuration)
    try require(try await listed(last) == model, "the log was changed by a checkpoint")
    try await last.close()
  }

  static func listed(_ store: Store) async throws -> [Key: [UInt8]] {
    var result: [Key: [UInt8]] = [:]
    try await store.scan { entry in
      result[entry.key] = entry.value
      return true
    }
    return result
  }
}

/// Contents of the fixture, read without its checkpoint.
private actor ExpectedContents {
  private var contents: [Key: [UInt8]]?

  func get() async throws -> [Key: [UInt8]] {
    if let contents { return contents }
    var files = try FixtureStore.files()
    files[FixtureStore.checkpointName] = nil
    let store = try Store(on: try files.storage(), at: "store", configuration: .fuzzing(.mapped))
    let result = try await CheckpointBody.listed(store)
    try await store.close()
    contents = result
    return result
  }
}
