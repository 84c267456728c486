import Foundation
import Moraine
import MoraineBodega
import MoraineTesting
import ServerTesting
import Synchronization
import Testing

/// The engine as a program sees it that knows only the protocol. The cases are those of Bodega's
/// tests of its own engines, written again.
@Suite(.timeLimit(.minutes(2))) struct StorageEngineTests {
  private let clock = ManualClock(startingAt: 1_700_000_000_000)
  private let store = Store.inMemory()

  private func engine() throws -> any StorageEngine {
    try MoraineStorageEngine(in: store, named: "data", clock: clock) { error in
      Issue.record("a read failed: \(error)")
    }
  }

  private static func key(_ text: String) -> CacheKey { CacheKey(verbatim: text) }

  private static func data(_ text: String) -> Data { Data(text.utf8) }

  private static func items(_ numbers: some Sequence<Int>) -> [(key: CacheKey, data: Data)] {
    numbers.map { (key: key("key-\($0)"), data: data("value \($0)")) }
  }

  @Test func dataIsReadAsItWasWritten() async throws {
    let engine = try engine()
    #expect(await engine.read(key: Self.key("a")) == nil)
    try await engine.write(Self.data("first"), key: Self.key("a"))
    #expect(await engine.read(key: Self.key("a")) == Self.data("first"))
    try await engine.write(Self.data("second"), key: Self.key("a"))
    #expect(await engine.read(key: Self.key("a")) == Self.data("second"))
    try await engine.write(Data(), key: Self.key("empty"))
    #expect(await engine.read(key: Self.key("empty")) == Data())
  }

  @Test func manyItemsAreWrittenTogether() async throws {
    let engine = try engine()
    try await engine.write([])
    #expect(await engine.keyCount() == 0)
    let before = try await store.lastSequence()
    try await engine.write(Self.items(0..<10))
    try await engine.write(Self.items(0..<10))
    #expect(await engine.keyCount() == 10)
    #expect(try await store.lastSequence().rawValue == before.rawValue + 20)
    #expect(await engine.allKeys() == Self.items(0..<10).map(\.key))
    let all = await engine.readAllDataAndKeys()
    #expect(all.map(\.key) == Self.items(0..<10).map(\.key))
    #expect(all.map(\.data) == Self.items(0..<10).map(\.data))
    #expect(await engine.readAllData() == all.map(\.data))
  }

  @Test func readingSeveralKeysLeavesOutThoseThatDoNotExist() async throws {
    let engine = try engine()
    #expect(await engine.read(keys: [Self.key("key-1")]).isEmpty)
    try await engine.write(Self.items(0..<10))
    let keys = [Self.key("key-8"), Self.key("none"), Self.key("key-1")]
    #expect(await engine.read(keys: keys) == Self.items([8, 1]).map(\.data))
    let found = await engine.readDataAndKeys(keys: keys)
    #expect(found.map(\.key) == Self.items([8, 1]).map(\.key))
    #expect(found.map(\.data) == Self.items([8, 1]).map(\.data))
  }

  @Test func removedKeysAreGone() async throws {
    let engine = try engine()
    try await engine.write(Self.items(0..<5))
    try await engine.remove(key: Self.key("key-0"))
    try await engine.remove(key: Self.key("none"))
    try await engine.remove(keys: [Self.key("key-1"), Self.key("none"), Self.key("key-2")])
    #expect(await engine.allKeys() == Self.items(3..<5).map(\.key))
    #expect(await engine.keyExists(Self.key("key-3")))
    #expect(await !engine.keyExists(Self.key("key-2")))
    try await engine.removeAllData()
    #expect(await engine.keyCount() == 0)
    #expect(await engine.readAllData().isEmpty)
    try await engine.removeAllData()
  }

  @Test func theTimesOfTheFirstAndTheLastWriteAreKept() async throws {
    let engine = try engine()
    let key = Self.key("a")
    #expect(await engine.createdAt(key: key) == nil)
    #expect(await engine.updatedAt(key: key) == nil)
    let first = Date(timeIntervalSince1970: 1_700_000_000)
    try await engine.write(Self.data("first"), key: key)
    #expect(await engine.createdAt(key: key) == first)
    #expect(await engine.updatedAt(key: key) == first)
    clock.advance(by: .milliseconds(1500))
    try await engine.write(Self.data("second"), key: key)
    #expect(await engine.createdAt(key: key) == first)
    #expect(await engine.updatedAt(key: key) == first.addingTimeInterval(1.5))
    // A key that is created again has a new time.
    try await engine.remove(key: key)
    try await engine.write(Self.data("third"), key: key)
    #expect(await engine.createdAt(key: key) == first.addingTimeInterval(1.5))
  }

  @Test func enginesOfOneKeyspaceSeeTheSameData() async throws {
    let (one, other) = (try engine(), try engine())
    try await withThrowingTaskGroup { group in
      for (number, engine) in [one, other, one, other].enumerated() {
        group.addTask {
          for item in Self.items(number * 50..<number * 50 + 100) {
            try await engine.write(item.data, key: item.key)
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(await one.keyCount() == 250)
    #expect(await other.readAllData().count == 250)
  }

  @Test func dataIsKeptAcrossOpenings() async throws {
    let folder = try TemporaryFolder()
    for run in 0..<2 {
      try await withStore(at: folder.url) { store in
        let engine = try MoraineStorageEngine(in: store, named: "data", durability: .sync) {
          Issue.record("a read failed: \($0)")
        }
        #expect(await engine.keyCount() == run * 10)
        try await engine.write(Self.items(run * 10..<run * 10 + 10))
      }
    }
  }

  /// A read that fails has the answer of one that finds nothing. The handler tells them apart.
  @Test func errorsOfReadsReachTheHandler() async throws {
    let errors = Mutex<[StoreError.Code]>([])
    let engine = try MoraineStorageEngine(in: store, named: "data") { error in
      if let error = error as? StoreError { errors.withLock { $0.append(error.code) } }
    }
    try await store.orderedKeyspace(named: "data").set([1], forKey: "foreign")
    #expect(await engine.read(key: Self.key("foreign")) == nil)
    #expect(errors.withLock { $0 } == [.decodingFailed])
    try await store.close()
    #expect(await engine.allKeys().isEmpty)
    #expect(errors.withLock { $0 } == [.decodingFailed, .closed])
    await #expect(throws: StoreError.self) {
      try await engine.write(Self.data("first"), key: Self.key("a"))
    }
  }
}
