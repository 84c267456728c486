import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage
import Testing

/// Backups beside compactions and a writer that does not pause.
@Suite(.timeLimit(.minutes(10))) struct BackupLoadTests {
  /// Each backup restores to exactly the state at its sequence number. The backups go to one
  /// directory after the other, and over the last one.
  @Test(arguments: BackupBench.modes)
  func eachBackupIsExactlyTheStateAtItsNumber(mode: Store.Configuration.IOMode) async throws {
    let count = Int(ProcessInfo.processInfo.environment["MORAINE_BACKUPS"] ?? "") ?? 25
    let directory = try TestDirectory()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 40_000, ioMode: mode)
    let store = try Store(at: directory.path, configuration: configuration)
    // An empty store has nothing to back up.
    try await store.set([0], forKey: "first")
    let history = Mutex<[UInt64: (key: Key, value: [UInt8]?)]>([1: ("first", [0])])
    let isDone = Atomic(false)
    async let writes: Void = {
      var number = 0
      while !isDone.load(ordering: .acquiring) {
        number += 1
        let key = Key("key \(number &* 7919 % 500)")
        let value: [UInt8]? =
          number % 11 == 5
          ? nil : Array("\(number) ".utf8) + [UInt8](repeating: 9, count: number % 200)
        if let value {
          let sequence = try await store.set(value, forKey: key)
          history.withLock { $0[sequence.rawValue] = (key, value) }
        } else if let sequence = try await store.removeValue(forKey: key) {
          history.withLock { $0[sequence.rawValue] = (key, nil) }
        }
      }
    }()
    // Runs after every failure. It stands after the start of the writer, so that it runs before the
    // writer is awaited.
    defer { isDone.store(true, ordering: .releasing) }
    var sequences: [UInt64] = []
    for number in 0..<count {
      if number % 5 == 2 { _ = try await store.compact() }
      // Every second backup goes over the previous one.
      let backup = FilePath(directory.url.path).appending("backup \(number / 2)")
      let restored = FilePath(directory.url.path).appending("restored \(number)")
      let report = try await store.backup(to: backup)
      try await Store.restore(backup, to: restored)
      sequences.append(report.sequence.rawValue)
    }
    isDone.store(true, ordering: .releasing)
    try await writes
    try await store.close()
    try await compare(sequences, history.withLock { $0 }, directory)
  }

  private func compare(
    _ sequences: [UInt64], _ history: [UInt64: (key: Key, value: [UInt8]?)],
    _ directory: TestDirectory
  ) async throws {
    var state: BackupBench.State = [:]
    var at: UInt64 = 0
    for (number, sequence) in sequences.enumerated() {
      while at < sequence {
        at += 1
        guard let change = history[at] else { continue }
        state[change.key] = change.value
      }
      let path = FilePath(directory.url.path).appending("restored \(number)")
      let store = try Store(at: path)
      #expect(try await store.everything() == state, "backup \(number) at \(sequence)")
      try await store.close()
    }
  }
}
