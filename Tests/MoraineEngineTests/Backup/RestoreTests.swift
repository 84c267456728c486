import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
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
