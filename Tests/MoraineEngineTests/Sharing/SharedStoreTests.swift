import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

extension Store.Configuration {
  /// Returns a configuration for stores that several openings share.
  static func shared(
    _ mode: IOMode = .mapped, segmentSizeBytes: Int = 64 << 20, durability: Durability = .none
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(
      segmentSizeBytes: segmentSizeBytes, ioMode: mode, durability: durability)
    configuration.sharing = .shared
    return configuration
  }
}

/// Several openings of one store, as in several processes: each has its own state, files and
/// mappings, and the kernel's locks tell the openings apart as they do processes.
@Suite(.timeLimit(.minutes(10))) struct SharedStoreTests {
  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  @Test(arguments: modes)
  func everyProcessSeesTheWritesOfAllProcesses(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.shared(mode)
    let first = try Store(at: directory.path, configuration: configuration)
    let second = try Store(at: directory.path, configuration: configuration)
    try await first.set([1], forKey: "a")
    #expect(try await second.value(forKey: "a") == [1])
    try await second.set([2], forKey: "a")
    try await second.set([3], forKey: "b")
    #expect(try await first.value(forKey: "a") == [2])
    #expect(try await first.count() == 2)
    try await first.removeValue(forKey: "b")
    #expect(try await second.value(forKey: "b") == nil)
    let third = try Store(at: directory.path, configuration: configuration)
    #expect(try await third.contents() == ["a": [2]])
    #expect(await third.recoveryReport.removedFiles.isEmpty)
    for store in [first, second, third] { try await store.close() }
    let alone = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(await alone.recoveryReport.wasClean)
    #expect(try await alone.contents() == ["a": [2]])
    #expect(try await alone.verify().isSound)
    try await alone.close()
  }

  @Test(arguments: modes)
  func sequenceNumbersAreGivenOnce(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    let configuration = Store.Configuration.shared(mode, segmentSizeBytes: 600)
    let stores = try (0..<3).map { _ in
      try Store(on: storage, at: "store", configuration: configuration)
    }
    let numbers = try await withThrowingTaskGroup(of: [UInt64].self) { group in
      for (index, store) in stores.enumerated() {
        group.addTask {
          var numbers: [UInt64] = []
          for number in 0..<200 {
            let key = Key("\(index) \(number % 20)")
            numbers.append(try await store.set([UInt8(index)], forKey: key).rawValue)
          }
          return numbers
        }
      }
      return try await group.reduce(into: [[UInt64]]()) { $0.append($1) }
    }
    #expect(numbers.allSatisfy { $0 == $0.sorted() })
    #expect(Set(numbers.joined()) == Set(1...600))
    for store in stores {
      #expect(try await store.contents().count == 60)
      #expect(try await store.verify().isSound)
    }
    for store in stores { try await store.close() }
  }

  @Test(arguments: modes)
  func batchInASharedStoreSeesNoOtherWriterBetweenReadAndWrite(
    mode: Store.Configuration.IOMode
  ) async throws {
    let storage = MemoryStorage()
    let stores = try (0..<3).map { _ in
      try Store(on: storage, at: "store", configuration: .shared(mode, segmentSizeBytes: 2000))
    }
    try await withThrowingTaskGroup { group in
      for store in stores {
        group.addTask {
          for _ in 0..<100 {
            try await store.write { batch in
              let before = try batch.value(forKey: "n")?.first ?? 0
              try batch.set([before &+ 1], forKey: "n")
            }
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(try await stores[0].value(forKey: "n") == [UInt8(300 & 0xFF)])
    for store in stores { try await store.close() }
  }

  @Test func exclusiveAndSharedOpeningsExcludeEachOther() async throws {
    let directory = try TestDirectory()
    let shared = try Store(at: directory.path, configuration: .shared())
    try await shared.set([1], forKey: "a")
    #expect(throws: StoreError.self) { try Store(at: directory.path, configuration: .testing()) }
    try await shared.close()
    let alone = try Store(at: directory.path, configuration: .testing())
    let error = #expect(throws: StoreError.self) {
      try Store(at: directory.path, configuration: .shared())
    }
    #expect(error?.code == .locked)
    try await alone.close()
  }

  @Test func openingWithoutWritingMakesNothing() async throws {
    let directory = try TestDirectory()
    let first = try Store(at: directory.path, configuration: .shared())
    let second = try Store(at: directory.path, configuration: .shared())
    #expect(try await first.value(forKey: "a") == nil)
    #expect(throws: (any Error).self) { try directory.names() }
    try await second.set([1], forKey: "a")
    #expect(try await first.value(forKey: "a") == [1])
    try await first.close()
    try await second.close()
  }

  /// A process that leaves does not seal the log while other processes have it open.
  @Test(arguments: modes)
  func lastProcessSealsTheLog(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let first = try Store(at: directory.path, configuration: .shared(mode))
    let second = try Store(at: directory.path, configuration: .shared(mode))
    try await first.set([1], forKey: "a")
    #expect(try await second.value(forKey: "a") == [1])
    try await first.close()
    try await second.set([2], forKey: "b")
    #expect(try await second.contents() == ["a": [1], "b": [2]])
    try await second.close()
    let reader = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(await reader.recoveryReport.wasClean)
    #expect(await reader.recoveryReport.segmentCount == 1)
    try await reader.close()
  }

  @Test(arguments: modes)
  func readersContinueWhileAnotherProcessCompacts(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.shared(mode, segmentSizeBytes: 2000)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    let first = try Store(on: storage, at: "store", configuration: configuration)
    let second = try Store(on: storage, at: "store", configuration: configuration)
    var expected: [Key: [UInt8]] = [:]
    for round in 0..<10 {
      for number in 0..<100 {
        let key = Key("\(number % 40)")
        let value = [UInt8](repeating: UInt8(round), count: number)
        try await [first, second][number % 2].set(value, forKey: key)
        expected[key] = value
      }
      try await second.removeValue(forKey: Key("\(round)"))
      expected[Key("\(round)")] = nil
      try await [first, second][round % 2].compact()
      #expect(try await first.contents() == expected)
      #expect(try await second.contents() == expected)
      #expect(try await first.statistics().digest == second.statistics().digest)
    }
    #expect(try await first.verify().isSound)
    #expect(try await second.verify().isSound)
    try await first.close()
    try await second.close()
  }

  /// Found by killing processes of both kinds: a process with a mapping wrote the footer past the
  /// end of a file that a process without mappings had not allocated ahead, and the footer was
  /// lost.
  @Test func mappedStoreSealsTheLogOfAPositionalStore() async throws {
    let directory = try TestDirectory()
    let first = try Store(at: directory.path, configuration: .shared(.positional))
    try await first.set([1], forKey: "a")
    let second = try Store(at: directory.path, configuration: .shared(.mapped))
    try await first.set([2], forKey: "b")
    try await second.compact()
    try await first.set([3], forKey: "c")
    try await first.close()
    try await second.set([4], forKey: "d")
    try await second.close()
    let alone = try Store(at: directory.path, configuration: .testing())
    #expect(try await alone.contents() == ["a": [1], "b": [2], "c": [3], "d": [4]])
    #expect(await alone.recoveryReport.wasClean)
    #expect(try await alone.verify().isSound)
    try await alone.close()
  }

  @Test(arguments: modes)
  func compactionsOfTwoProcessesTakeTurns(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    var configuration = Store.Configuration.shared(mode, segmentSizeBytes: 1000)
    configuration.compaction = .manual
    let stores = try (0..<3).map { _ in
      try Store(on: storage, at: "store", configuration: configuration)
    }
    for round in 0..<5 {
      for number in 0..<200 {
        let value = [UInt8](repeating: UInt8(round), count: number % 50)
        try await stores[number % 3].set(value, forKey: Key("\(number % 60)"))
      }
      try await withThrowingTaskGroup { group in
        for store in stores { group.addTask { try await store.compact() } }
        try await group.waitForAll()
      }
      for store in stores {
        #expect(try await store.count() == 60)
        #expect(try await store.verify().isSound)
      }
    }
    for store in stores { try await store.close() }
  }
}
