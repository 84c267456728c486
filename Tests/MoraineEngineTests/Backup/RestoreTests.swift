import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A restored store has the state of the backup, and an epoch of its own.
@Suite(.timeLimit(.minutes(5))) struct RestoreTests {
  @Test(arguments: BackupBench.modes)
  func restoredStoreIsWrittenCompactedAndReopened(mode: Store.Configuration.IOMode) async throws {
    let bench = try BackupBench(mode)
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<300, to: bench.store, &states)
    let made = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let (store, report) = try await bench.restore()
    #expect(report.sequence == made.sequence && report.count == state.count)
    #expect(report.checkedBytes >= made.totalBytes)
    #expect(try await store.everything() == state)
    // The restored store is written to, compacted and opened again, like any other store.
    let more = try await BackupBench.write(300..<600, to: store, &states, from: state)
    _ = try await store.compact()
    try await store.close()
    let again = try Store(
      on: bench.storage, at: BackupBench.restored, configuration: bench.configuration)
    #expect(try await again.everything() == more)
    #expect(try await again.verify().isSound)
    // The restored store has a backup of its own, and does not overwrite the other store's backup.
    let error = await #expect(throws: StoreError.self) {
      _ = try await again.backup(to: BackupBench.backup, on: bench.storage)
    }
    #expect(error?.code == .historyDiverged)
    _ = try await again.backup(to: "second", on: bench.storage)
    try await again.close()
    try await bench.store.close()
  }

  /// Changes that the restored store does not contain are no part of its history, even when their
  /// sequence numbers are used again.
  @Test func aRestoreBeginsAnEpoch() async throws {
    let bench = try BackupBench()
    var states: [UInt64: BackupBench.State] = [:]
    var iterator = bench.store.changes().makeAsyncIterator()
    let state = try await BackupBench.write(0..<20, to: bench.store, &states)
    let made = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    _ = try await BackupBench.write(20..<30, to: bench.store, &states, from: state)
    var cursors: [ChangeCursor] = []
    while cursors.last?.sequence.rawValue != states.keys.max(),
      let change = try await iterator.next()
    { cursors.append(change.cursor) }
    let (store, _) = try await bench.restore()
    _ = try await BackupBench.write(20..<40, to: store, &states, from: state)
    for cursor in cursors {
      var changes = store.changes(since: cursor).makeAsyncIterator()
      if cursor.sequence <= made.sequence {
        #expect(try await changes.next()?.sequence.rawValue == cursor.sequence.rawValue + 1)
      } else {
        let error = await #expect(throws: StoreError.self) { _ = try await changes.next() }
        #expect(error?.code == .cursorDiverged)
      }
    }
    try await store.close()
    try await bench.store.close()
  }

  /// Writes a value for each number.
  private func write(_ numbers: ClosedRange<Int>, _ value: UInt8, to store: Store) async throws {
    for number in numbers { try await store.set([value], forKey: Key("\(number)")) }
  }

  /// Returns the cursor of the first change of a key.
  private func cursor(of key: Key, in store: Store) async throws -> ChangeCursor {
    var iterator = store.changes(after: .none).makeAsyncIterator()
    while true {
      let change = try #require(try await iterator.next())
      if change.key == key { return change.cursor }
    }
  }

  private func expectDivergence(of cursor: ChangeCursor, in store: Store) async {
    var changes = store.changes(since: cursor).makeAsyncIterator()
    let error = await #expect(throws: StoreError.self) { _ = try await changes.next() }
    #expect(error?.code == .cursorDiverged)
  }

  private func expect(_ key: Key, after cursor: ChangeCursor, in store: Store) async throws {
    var changes = store.changes(since: cursor).makeAsyncIterator()
    #expect(try await changes.next()?.key == key)
  }

  /// Regression: a cursor was compared only with the next life of the store. A later life had begun
  /// at an earlier moment, and had other changes with the numbers between the two.
  @Test func aCursorAfterTheEarlierOfTwoRestoredMomentsHasDiverged() async throws {
    let bench = try BackupBench()
    try await write(1...100, 1, to: bench.store)
    let kept = try await cursor(of: "80", in: bench.store)
    let gone = try await cursor(of: "90", in: bench.store)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let (second, _) = try await bench.restore()
    try await write(101...120, 2, to: second)
    _ = try await second.backup(to: "second", on: bench.storage)
    let (third, _) = try await bench.restore("second", to: "third", through: kept.sequence)
    try await write(81...130, 3, to: third)
    await expectDivergence(of: gone, in: third)
    try await expect("81", after: kept, in: third)
    // The second life has the change.
    try await expect("91", after: gone, in: second)
    for store in [third, second, bench.store] { try await store.close() }
  }

  /// Regression: two stores that were restored from one backup have equal epochs. One used a cursor
  /// of the other's change as one of its own change with the same number.
  @Test func aCursorOfAnotherRestoreOfTheSameBackupHasDiverged() async throws {
    let bench = try BackupBench()
    try await write(1...100, 1, to: bench.store)
    let moment = try await cursor(of: "80", in: bench.store).sequence
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let (one, _) = try await bench.restore()
    let (other, _) = try await bench.restore(to: "other")
    let (early, _) = try await bench.restore(to: "early", through: moment)
    try await write(101...120, 2, to: one)
    try await write(101...120, 3, to: other)
    try await write(81...120, 4, to: early)
    let cursors = [try await cursor(of: "90", in: one), try await cursor(of: "110", in: one)]
    let saved = try JSONEncoder().encode(cursors)
    for pair in [cursors, try JSONDecoder().decode([ChangeCursor].self, from: saved)] {
      let (shared, own) = (pair[0], pair[1])
      // Both stores have the change from the backup, and the one of an earlier moment has not.
      for store in [one, other] { try await expect("91", after: shared, in: store) }
      await expectDivergence(of: shared, in: early)
      try await expect("111", after: own, in: one)
      for store in [other, early] { await expectDivergence(of: own, in: store) }
    }
    for store in [early, other, one, bench.store] { try await store.close() }
  }

  /// The cursor of an earlier version has neither the life nor the number of recoveries.
  @Test func aCursorOfAnEarlierVersionIsValidInARestoredStore() async throws {
    struct Earlier: Codable {
      let store: String
      let epoch: UInt64
      let sequence: UInt64
    }
    let bench = try BackupBench()
    try await write(1...10, 1, to: bench.store)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let (store, _) = try await bench.restore()
    for key in ["5", "9"] as [Key] {
      let now = try JSONEncoder().encode(try await cursor(of: key, in: bench.store))
      let earlier = try JSONEncoder().encode(try JSONDecoder().decode(Earlier.self, from: now))
      let decoded = try JSONDecoder().decode(ChangeCursor.self, from: earlier)
      try await expect(key == "5" ? "6" : "10", after: decoded, in: store)
    }
    try await store.close()
    try await bench.store.close()
  }

  /// Regression: a restored store did not know what its store had lost in a power failure. It used
  /// a cursor of a lost change as one of the change that had got the same number.
  @Test func aRestoredStoreRefusesACursorOfChangesThatItsStoreLost() async throws {
    let disk = SimulatedDisk()
    let before = try BackupBench(on: disk)
    try await before.store.set([1], forKey: "1")
    let durable = try await before.store.set([1], forKey: "2", durability: .sync)
    try await write(3...5, 1, to: before.store)
    let kept = try await cursor(of: "1", in: before.store)
    let lost = try await cursor(of: "3", in: before.store)
    let bench = try BackupBench(on: SimulatedDisk(disk.image(.nothing)))
    #expect(try await bench.store.count() == 2)
    try await write(11...20, 2, to: bench.store)
    #expect(try await bench.store.statistics().lastSequence > lost.sequence)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    let (store, _) = try await bench.restore()
    await expectDivergence(of: lost, in: store)
    try await expect("2", after: kept, in: store)
    // A state before the failure: the place where it ended the log is not part of that.
    let earlier = SequenceNumber(rawValue: durable.rawValue - 1)
    let (early, _) = try await bench.restore(to: "early", through: earlier)
    #expect(try await early.everything() == ["1": [1]])
    try await write(11...20, 3, to: early)
    await expectDivergence(of: lost, in: early)
    try await expect("11", after: kept, in: early)
    for store in [early, store, bench.store, before.store] { try await store.close() }
  }

  /// Restores a past state, for every sequence number that exists.
  @Test(arguments: BackupBench.modes)
  func everyNumberCanBeRestored(mode: Store.Configuration.IOMode) async throws {
    let bench = try BackupBench(mode, segmentSizeBytes: 1000)
    var states: [UInt64: BackupBench.State] = [0: [:]]
    var state = try await BackupBench.write(0..<30, to: bench.store, &states)
    // A restore contains all of a batch or nothing.
    let batchBegin = try #require(states.keys.max())
    for key in ["a", "b", "c"] { state[Key(key)] = Array(key.utf8) }
    try await bench.store.write { batch in
      for key in ["a", "b", "c"] { try batch.set(Array(key.utf8), forKey: Key(key)) }
    }
    let batchEnd = try await bench.store.statistics().lastSequence.rawValue
    for number in batchBegin + 1..<batchEnd { states[number] = states[batchBegin] }
    states[batchEnd] = state
    state = try await BackupBench.write(30..<50, to: bench.store, &states, from: state)
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    for (number, expected) in states.sorted(by: { $0.key < $1.key }) {
      let path = FilePath("restored \(number)")
      let (store, report) = try await bench.restore(
        to: path, through: SequenceNumber(rawValue: number))
      #expect(try await store.everything() == expected, "up to \(number)")
      #expect(report.count == expected.count)
      let next = try await store.set([1], forKey: "next")
      #expect(next.rawValue > number)
      try await store.close()
      let again = try Store(on: bench.storage, at: path, configuration: bench.configuration)
      #expect(try await again.count() == expected.count + 1)
      #expect(try await again.verify().isSound)
      try await again.close()
    }
    try await bench.store.close()
  }

  @Test func stateThatCompactionDroppedCannotBeRestored() async throws {
    let bench = try BackupBench()
    var states: [UInt64: BackupBench.State] = [:]
    let state = try await BackupBench.write(0..<200, to: bench.store, &states)
    _ = try await bench.store.compact()
    let compacted = try await bench.store.statistics().lastSequence.rawValue
    _ = try await BackupBench.write(200..<230, to: bench.store, &states, from: state)
    let last = try await bench.store.statistics().lastSequence.rawValue
    _ = try await bench.store.backup(to: BackupBench.backup, on: bench.storage)
    for number in [compacted - 1, last + 1] {
      let error = await #expect(throws: StoreError.self) {
        _ = try await bench.restore(through: SequenceNumber(rawValue: number))
      }
      #expect(error?.code == .sequenceUnavailable)
    }
    #expect(try !bench.names(BackupBench.restored).contains("MANIFEST"))
    let (store, _) = try await bench.restore(through: SequenceNumber(rawValue: compacted))
    #expect(try await store.everything() == state)
    try await store.close()
    try await bench.store.close()
  }
}
