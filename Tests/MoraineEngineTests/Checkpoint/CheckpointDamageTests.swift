import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// With any damage to an index checkpoint, a store answers as it does without a checkpoint, and
/// reports the damage.
///
/// `MORAINE_EVERY_BYTE=1` tests all bytes and lengths; otherwise those of the header and every
/// 11th.
@Suite(.timeLimit(.minutes(10))) struct CheckpointDamageTests {
  /// A closed store with a checkpoint.
  private struct Ground {
    let storage = MemoryStorage()
    let configuration: Store.Configuration
    var model: [Key: [UInt8]] = [:]
    var name = ""
    var original: [UInt8] = []

    init(_ mode: Store.Configuration.IOMode) async throws {
      var configuration = Store.Configuration.testing(segmentSizeBytes: 600, ioMode: mode)
      configuration.checkpointFloorBytes = 0
      configuration.compaction = .manual
      self.configuration = configuration
      let store = try Store(on: storage, at: "store", configuration: configuration)
      for number in 0..<40 {
        let key = Key("key \(number % 25)")
        model[key] = [UInt8(number)]
        try await store.set([UInt8(number)], forKey: key)
      }
      for number in 0..<5 {
        model[Key("key \(number)")] = nil
        try await store.removeValue(forKey: Key("key \(number)"))
      }
      try await store.close()
      let names = try directory().entries().map(\.name)
      name = try #require(names.first { $0.hasSuffix(".index") })
      let file = try #require(try directory().openFile(name, .read))
      original = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
      _ = try original.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    }

    func directory() throws -> any StorageDirectory {
      try #require(try storage.openDirectory("store"))
    }

    func replace(with bytes: [UInt8]) throws {
      let directory = try directory()
      try directory.remove(name)
      let file = try directory.createFile(name)
      try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    }

    /// - Returns: the problem that was found, or nil.
    func complaint() async throws -> String? {
      var readOnly = configuration
      readOnly.isReadOnly = true
      let store = try Store(on: storage, at: "store", configuration: readOnly)
      for number in 0..<26 {
        let key = Key("key \(number)")
        guard try await store.value(forKey: key) == model[key] else { return "\(key) is wrong" }
      }
      let count = try await store.count()
      // The pages that no answer needs are read too.
      _ = try await store.verify()
      let problem = await store.recoveryReport.checkpointProblem
      var listed: [Key: [UInt8]] = [:]
      try await store.scan { entry in
        listed[entry.key] = entry.value
        return true
      }
      try await store.close()
      guard count == model.count else { return "it counts \(count) keys" }
      guard problem?.code == .corrupted, problem?.file?.hasSuffix(".index") == true else {
        return "it does not report the damage"
      }
      return listed == model ? nil : "it lists something else"
    }
  }

  private func places(_ ground: Ground) -> [Int] {
    if ProcessInfo.processInfo.environment["MORAINE_EVERY_BYTE"] != nil {
      return Array(ground.original.indices)
    }
    return ground.original.indices.filter { $0 < 300 || $0 % 11 == 0 }
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func everyFlippedByteChangesNoAnswer(mode: Store.Configuration.IOMode) async throws {
    let ground = try await Ground(mode)
    var random = SeededGenerator(seed: 5)
    for place in places(ground) {
      var damaged = ground.original
      damaged[place] ^= UInt8(1 + random.next() % 255)
      try ground.replace(with: damaged)
      let complaint = try await ground.complaint()
      #expect(complaint == nil, "byte \(place), which became \(damaged[place])")
    }
    #expect(ground.original.count > 8000, "a head and a page")
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func everyTruncationChangesNoAnswer(mode: Store.Configuration.IOMode) async throws {
    let ground = try await Ground(mode)
    for length in places(ground) {
      try ground.replace(with: Array(ground.original.prefix(length)))
      let complaint = try await ground.complaint()
      #expect(complaint == nil, "cut to \(length) bytes")
    }
  }
}
