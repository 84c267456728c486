import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Writes with a condition: compare and set.
@Suite(.timeLimit(.minutes(10))) struct ConditionTests {
  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private func store(
    _ storage: any Storage, _ mode: Store.Configuration.IOMode, isShared: Bool = false
  ) throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4096, ioMode: mode)
    if isShared { configuration.sharing = .shared }
    return try Store(on: storage, at: "store", configuration: configuration)
  }

  @Test(arguments: modes, [false, true])
  func absentHoldsOnlyForAKeyThatDoesNotExist(
    mode: Store.Configuration.IOMode, isShared: Bool
  ) async throws {
    let store = try store(MemoryStorage(), mode, isShared: isShared)
    let first = try await store.set([1], forKey: "k", if: .absent)
    #expect(first != nil)
    #expect(try await store.set([2], forKey: "k", if: .absent) == nil)
    #expect(try await store.value(forKey: "k") == [1])
    try await store.removeValue(forKey: "k")
    #expect(try await store.set([3], forKey: "k", if: .absent) != nil)
    #expect(try await store.value(forKey: "k") == [3])
    try await store.close()
  }

  @Test(arguments: modes, [false, true])
  func sequenceHoldsOnlyForTheOperationThatSetTheValue(
    mode: Store.Configuration.IOMode, isShared: Bool
  ) async throws {
    let store = try store(MemoryStorage(), mode, isShared: isShared)
    #expect(
      try await store.set([1], forKey: "k", if: .sequence(SequenceNumber(rawValue: 1))) == nil)
    try await store.set([1], forKey: "k")
    let seen = try #require(try await store.versionedValue(forKey: "k"))
    #expect(seen.value == [1])
    let next = try #require(try await store.set([2], forKey: "k", if: .sequence(seen.sequence)))
    #expect(next > seen.sequence)
    #expect(try await store.set([9], forKey: "k", if: .sequence(seen.sequence)) == nil)
    #expect(try await store.removeValue(forKey: "k", if: .sequence(seen.sequence)) == nil)
    #expect(
      try await store.versionedValue(forKey: "k")
        == VersionedValue(value: [2], sequence: next, expiryMilliseconds: nil))
    #expect(try await store.removeValue(forKey: "k", if: .sequence(next)) != nil)
    #expect(try await store.versionedValue(forKey: "k") == nil)
    #expect(try await store.set([3], forKey: "k", if: .sequence(next)) == nil)
    try await store.close()
  }

  @Test(arguments: modes)
  func valueHoldsOnlyForTheSameBytes(mode: Store.Configuration.IOMode) async throws {
    let store = try store(MemoryStorage(), mode)
    let large = [UInt8](repeating: 7, count: 9000)
    try await store.set(large, forKey: "k")
    #expect(try await store.set([1], forKey: "k", if: .value(Array(large.dropLast()))) == nil)
    #expect(try await store.removeValue(forKey: "k", if: .value([])) == nil)
    #expect(try await store.set([], forKey: "k", if: .value(large)) != nil)
    #expect(try await store.removeValue(forKey: "k", if: .value([])) != nil)
    #expect(try await store.removeValue(forKey: "k", if: .value([])) == nil)
    try await store.close()
  }

  /// A refused write appends nothing: its sequence number is not used.
  @Test(arguments: modes)
  func refusedWriteAppendsNothing(mode: Store.Configuration.IOMode) async throws {
    let store = try store(MemoryStorage(), mode)
    try await store.set([1], forKey: "k")
    let (bytes, last) = (
      try await store.statistics().appendedBytes, try await store.lastSequence()
    )
    #expect(try await store.set([2], forKey: "k", if: .absent) == nil)
    #expect(try await store.removeValue(forKey: "other", if: .value([1])) == nil)
    #expect(try await store.update("k") { $0 } == [1])
    #expect(try await store.statistics().appendedBytes == bytes)
    #expect(try await store.lastSequence() == last)
    try await store.close()
  }

  /// A compaction and the next opening change no sequence number.
  @Test(arguments: modes)
  func sequenceHoldsAfterACompactionAndAnOpening(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    var store = try store(storage, mode)
    try await store.set([1], forKey: "k")
    for number in 0..<300 { try await store.set([UInt8(number % 7)], forKey: "other") }
    let seen = try #require(try await store.versionedValue(forKey: "k"))
    _ = try await store.compact()
    #expect(try await store.versionedValue(forKey: "k") == seen)
    try await store.close()
    store = try self.store(storage, mode)
    #expect(try await store.set([2], forKey: "k", if: .sequence(seen.sequence)) != nil)
    try await store.close()
  }

  @Test(arguments: modes)
  func conditionOfABatchSeesTheBatchsOwnOperations(
    mode: Store.Configuration.IOMode
  ) async throws {
    let store = try store(MemoryStorage(), mode)
    let other = try store.keyspace(named: "other")
    let first = try await store.set([1], forKey: "k")
    let answers = try await store.write { batch in
      var answers: [Bool] = []
      answers.append(try batch.set([2], forKey: "k", if: .sequence(first)))
      // The value of this batch has no number yet.
      answers.append(try batch.set([3], forKey: "k", if: .sequence(first)))
      answers.append(try batch.set([3], forKey: "k", if: .value([2])))
      answers.append(try batch.set([1], forKey: "new", in: other, if: .absent))
      answers.append(try batch.set([2], forKey: "new", in: other, if: .absent))
      answers.append(try batch.removeValue(forKey: "new", in: other, if: .value([1])))
      answers.append(try batch.set([4], forKey: "new", in: other, if: .absent))
      return answers
    }
    #expect(answers == [true, false, true, true, false, true, true])
    #expect(try await store.value(forKey: "k") == [3])
    #expect(try await other.value(forKey: "new") == [4])
    try await store.close()
  }

  /// Writers that compare and set lose no increment, whether they are tasks of one store or several
  /// openings of a shared store.
  @Test(arguments: modes, [false, true])
  func concurrentIncrementsAreNotLost(
    mode: Store.Configuration.IOMode, isShared: Bool
  ) async throws {
    let storage = MemoryStorage()
    let stores =
      isShared
      ? try (0..<3).map { _ in try store(storage, mode, isShared: true) }
      : Array(repeating: try store(storage, mode), count: 3)
    let (writers, increments) = (6, 40)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for writer in 0..<writers {
        let keyspace = try stores[writer % stores.count].keyspace(named: "counters")
        group.addTask {
          for _ in 0..<increments {
            while true {
              let seen = try await keyspace.versionedValue(forKey: "n")
              let next = [(seen?.value.first ?? 0) &+ 1]
              let condition = seen.map { WriteCondition.sequence($0.sequence) } ?? .absent
              if try await keyspace.set(next, forKey: "n", if: condition) != nil { break }
            }
            try await keyspace.update("m") { [($0?.first ?? 0) &+ 1] }
          }
        }
      }
      try await group.waitForAll()
    }
    let total = UInt8(writers * increments)
    for store in stores {
      let keyspace = try store.keyspace(named: "counters")
      #expect(try await keyspace.value(forKey: "n") == [total])
      #expect(try await keyspace.value(forKey: "m") == [total])
    }
    for store in isShared ? stores : [stores[0]] { try await store.close() }
  }

  /// Regression: a store that did not exist when it was opened, and that another process has created
  /// since, had no key for a condition.
  @Test(arguments: modes)
  func conditionSeesAStoreThatAnotherProcessHasCreated(
    mode: Store.Configuration.IOMode
  ) async throws {
    let storage = MemoryStorage()
    let early = try store(storage, mode)
    let other = try store(storage, mode)
    try await other.set([1], forKey: "k")
    try await other.close()
    #expect(try await early.set([2], forKey: "k", if: .absent) == nil)
    #expect(try await early.update("k") { $0.map { $0 + [3] } } == [1, 3])
    try await early.close()
  }

  /// An update is one step where its segment is full: no other writer comes between its read and
  /// its write.
  @Test(arguments: modes)
  func updateIsOneStepWhenASegmentIsFull(mode: Store.Configuration.IOMode) async throws {
    let store = try store(MemoryStorage(), mode)
    let counters = try store.keyspace(named: "counters")
    let (writers, increments) = (4, 100)
    var generator = SeededGenerator(seed: 1)
    let padding = (0..<700).map { _ in UInt8.random(in: 0...255, using: &generator) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<writers {
        group.addTask {
          for _ in 0..<increments {
            try await counters.update("n") { old in
              let count = old.map { Int($0[0]) + 256 * Int($0[1]) } ?? 0
              return [UInt8((count + 1) % 256), UInt8((count + 1) / 256)] + padding
            }
          }
        }
      }
      try await group.waitForAll()
    }
    let total = writers * increments
    let value = try await counters.value(forKey: "n")
    #expect(value == [UInt8(total % 256), UInt8(total / 256)] + padding)
    try await store.close()
  }

  /// An update removes a key for nil, and a value that it sets has its keyspace's lifetime.
  @Test(arguments: modes)
  func updateRemovesAndExpires(mode: Store.Configuration.IOMode) async throws {
    let clock = ManualClock(startingAt: 1_000_000)
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4096, ioMode: mode)
    configuration.clock = clock
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let keyspace = try store.keyspace(named: "brief", defaultLifetime: .seconds(10))
    try await keyspace.update("k") { _ in [1] }
    #expect(try await keyspace.value(forKey: "k") == [1])
    try await keyspace.update("k") { old in old == [1] ? [2] : [9] }
    clock.advance(by: .seconds(11))
    #expect(try await keyspace.value(forKey: "k") == nil)
    let lasting = try store.keyspace(named: "brief")
    #expect(try await lasting.update("k") { old in old == nil ? [3] : [9] } == [3])
    clock.advance(by: .seconds(1000))
    #expect(try await lasting.value(forKey: "k") == [3])
    let before = try await store.statistics().count
    #expect(try await lasting.update("k") { _ in nil } == nil)
    #expect(try await store.statistics().count == before - 1)
    #expect(try await lasting.update("k") { _ in nil } == nil)
    try await store.close()
  }

  @Test func updateWritesNothingWhenItsBodyThrows() async throws {
    struct Refusal: Error {}
    let store = try store(MemoryStorage(), .mapped)
    try await store.set([1], forKey: "k")
    await #expect(throws: Refusal.self) {
      try await store.update("k") { _ in throw Refusal() }
    }
    #expect(try await store.value(forKey: "k") == [1])
    #expect(try await store.update("k") { _ in nil } == nil)
    #expect(try await store.contains("k") == false)
    try await store.close()
  }
}

/// The errors of calls with a body.
@Suite struct TypedErrorTests {
  private struct Refused: Error {}

  /// The compiler accepts the typed catch only if the calls have a typed error.
  @Test func bodyWithoutErrorsOfItsOwnLeavesTheErrorOfTheStoreTyped() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "k")
    try await store.set([1], forKey: "a")
    let snapshot = try await store.snapshot()
    let reader = try await store.reader()
    try await store.close()
    var codes: [StoreError.Code] = []
    do throws(StoreError) { try await store.update("a") { $0 } } catch { codes.append(error.code) }
    do throws(StoreError) { try await keyspace.update("a") { $0 } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try await store.write { $0.count } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) {
      try await store.write { (batch) throws(StoreError) in try batch.set([2], forKey: "a") }
    } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try await store.transaction { $0.sequence } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try await store.withValue(forKey: "a") { $0.byteCount } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try await keyspace.withValue(forKey: "a") { $0.byteCount } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { try await store.scan { _ in true } } catch { codes.append(error.code) }
    do throws(StoreError) { try await keyspace.scan { _ in true } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try reader.withValue(forKey: "a") { $0.byteCount } } catch {
      codes.append(error.code)
    }
    #expect(codes == Array(repeating: .closed, count: 10))
    // A snapshot stays readable.
    func read() throws(StoreError) -> [Int] {
      var seen: [Int] = []
      seen.append(try snapshot.withValue(forKey: "a") { $0.byteCount } ?? 0)
      try snapshot.scan {
        seen.append($0.value.count)
        return true
      }
      try snapshot.scanSpans { _, value in
        seen.append(value.byteCount)
        return true
      }
      return seen
    }
    #expect(try read() == [1, 1, 1])
    let failure = await #expect(throws: StoreError.self) {
      try await withStore(at: "/no/such/directory/store") { (store) throws(StoreError) in
        try await store.set([1], forKey: "a")
      }
    }
    #expect(failure != nil)
  }

  @Test func bodyWithErrorsOfItsOwnThrowsThem() async throws {
    let store = Store.inMemory()
    await #expect(throws: Refused.self) { try await store.update("a") { _ in throw Refused() } }
    await #expect(throws: Refused.self) { try await store.write { _ in throw Refused() } }
    await #expect(throws: Refused.self) { try await store.transaction { _ in throw Refused() } }
    #expect(try await store.count() == 0)
  }
}
