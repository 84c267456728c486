import MoraineEngine
import MoraineStorage
import SystemPackage

/// Operations in sequence, compared with a dictionary.
enum OperationsBody {
  private static let isPositional = FuzzFlags(rawValue: 1)
  private static let isAutomatic = FuzzFlags(rawValue: 2)
  private static let hasCheckpoints = FuzzFlags(rawValue: 4)
  private static let segmentSizes = [256, 400, 1000, 4096]
  private static let operationLimit = 96

  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    var configuration = Store.Configuration.fuzzing(
      flags.contains(isPositional) ? .positional : .mapped)
    configuration.compaction.isAutomatic = flags.contains(isAutomatic)
    if flags.contains(hasCheckpoints) { configuration.checkpointFloorBytes = 0 }
    configuration.segmentSizeBytes = segmentSizes[Int(flags.rawValue >> 4) % segmentSizes.count]
    var life = try Life(configuration)
    var count = 0
    while !input.isAtEnd, count < operationLimit {
      try await life.step(&input)
      count += 1
    }
    try await life.reopen()
    _ = try await life.store.compact()
    try await life.reopen()
    try await life.store.close()
  }

  /// A store and its expected contents.
  private struct Life {
    let configuration: Store.Configuration
    var storage = MemoryStorage()
    var store: Store
    var model: [Key: [UInt8]] = [:]
    var lastSequence: UInt64 = 0

    init(_ configuration: Store.Configuration) throws {
      self.configuration = configuration
      store = try Store(on: storage, at: "store", configuration: configuration)
    }

    mutating func step(_ input: inout FuzzInput) async throws {
      let operation = input.byte()
      switch operation & 15 {
      case 0...3: try await put(key(&input), value(&input))
      case 4, 5: try await delete(key(&input))
      case 6: try await get(key(&input))
      case 7: try await batch(&input, count: Int(operation >> 4) + 1)
      case 8:
        let start = Int(operation >> 4)
        try await store.compact(segments: start..<start + 1 + Int(input.byte() & 7))
      case 9: _ = try await store.compact()
      case 10: try await store.sync()
      case 11: try await reopen()
      case 12: try await die()
      case 13: try await check()
      case 14: try await batchThatThrows(&input)
      default: try await put(key(&input), [UInt8](repeating: input.byte(), count: 700))
      }
    }

    private func key(_ input: inout FuzzInput) -> Key {
      let byte = input.byte()
      switch byte {
      case 255: return []
      case 254: return Key([UInt8](repeating: 1, count: 300))
      default: return "key \(byte & 31)"
      }
    }

    /// A run of equal bytes, or a few bytes of the input: a value that compresses, and a value that
    /// does not.
    private func value(_ input: inout FuzzInput) -> [UInt8] {
      let shape = input.byte()
      let count = Int(shape & 127)
      return shape > 127 ? input.take(count) : [UInt8](repeating: input.byte(), count: count)
    }

    private mutating func note(_ sequence: SequenceNumber) throws(Finding) {
      try require(
        sequence.rawValue > lastSequence, "sequence number \(sequence) follows \(lastSequence)")
      lastSequence = sequence.rawValue
    }

    private mutating func put(_ key: Key, _ value: [UInt8]) async throws {
      model[key] = value
      try note(try await store.set(value, forKey: key))
    }

    private mutating func delete(_ key: Key) async throws {
      let wasThere = model.removeValue(forKey: key) != nil
      let sequence = try await store.removeValue(forKey: key)
      try require((sequence != nil) == wasThere, "a delete of \(key) answers otherwise")
      if let sequence { try note(sequence) }
    }

    private func get(_ key: Key) async throws {
      try require(try await store.value(forKey: key) == model[key], "\(key) has another value")
      try require(
        try await store.contains(key) == (model[key] != nil), "\(key) is there, or is not")
    }

    private mutating func batch(_ input: inout FuzzInput, count: Int) async throws {
      let operations = (0..<count).map { _ -> (key: Key, value: [UInt8]?) in
        let key = key(&input)
        return (key, input.byte() & 3 == 0 ? nil : value(&input))
      }
      var expected = model
      let answers = try await store.write { batch in
        var answers: [Bool] = []
        for (key, value) in operations {
          if let value {
            try batch.set(value, forKey: key)
            answers.append(try batch.value(forKey: key) == value)
          } else {
            answers.append(try batch.removeValue(forKey: key))
          }
        }
        return answers
      }
      for ((key, value), answer) in zip(operations, answers) {
        let isRight = value != nil || expected[key] != nil
        expected[key] = value
        try require(answer == isRight, "a batch does not read its own writes")
      }
      model = expected
      lastSequence = try await store.lastSequence().rawValue
    }

    private struct Change: Error {}

    private func batchThatThrows(_ input: inout FuzzInput) async throws {
      let (key, value) = (key(&input), value(&input))
      do {
        try await store.write { batch in
          try batch.set(value, forKey: key)
          throw Change()
        }
        throw Finding("a batch lost its error")
      } catch is Change {}
    }

    mutating func reopen() async throws {
      try await check()
      try await store.close()
      store = try Store(on: storage, at: "store", configuration: configuration)
      try require(await store.recoveryReport.wasClean, "closed in order, it was not clean")
      try await check()
    }

    /// Kills the process: the contents of the files count, and no acknowledged operation is lost.
    private mutating func die() async throws {
      // A background compaction may be about to change the files.
      guard !configuration.compaction.isAutomatic else { return }
      // The same holds for the sealing of a full segment, which ends soon: files that are copied
      // one after the other while it runs are no state that the store ever had.
      try await store.waitUntilIdle()
      let copy = try StoreFiles(of: storage).storage()
      try await store.close()
      storage = copy
      store = try Store(on: storage, at: "store", configuration: configuration)
      try await check()
    }

    private func check() async throws {
      let listed = try await CheckpointBody.listed(store)
      try require(listed == model, "it holds something else than the dictionary")
      let (count, last) = try await (store.count(), store.lastSequence().rawValue)
      try require(count == model.count, "it counts \(count) keys, not \(model.count)")
      try require(last >= lastSequence, "the last sequence number went back")
      let report = try await store.verify()
      try require(report.isSound, "it does not verify: \(report.problems)")
    }
  }
}
