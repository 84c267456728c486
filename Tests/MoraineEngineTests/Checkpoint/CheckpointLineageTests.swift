import Foundation
import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A checkpoint counts only beside the log that it was made from.
@Suite(.timeLimit(.minutes(10))) struct CheckpointLineageTests {
  private func index(in directory: TestDirectory) throws -> URL {
    let names = try directory.names().filter { $0.hasSuffix(".index") }
    try #require(names.count == 1, "\(names)")
    return directory.store.appendingPathComponent(names[0])
  }

  /// Returns the files that a killed process leaves: a checkpoint that covers ten records of the
  /// open segment.
  private func killed(_ mode: Store.Configuration.IOMode) async throws -> TestDirectory {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 20_000, ioMode: mode)
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    let storage = FaultStorage(DiskStorage())
    let store = try Store(on: storage, at: directory.path, configuration: configuration)
    for number in 0..<20 { try await store.set([1, 2, 3], forKey: Key("old \(number % 10)")) }
    let gate = Gate()
    let hasHung = Mutex(false)
    storage.setScript { event in
      guard event.operation == .createFile, event.file.hasSuffix(".segment") else { return nil }
      return hasHung.withLock { hasHung in
        defer { hasHung = true }
        return hasHung ? nil : .hang(gate)
      }
    }
    // While compaction waits for its output, the writer continues in another segment.
    let compaction = Task { try await store.compact() }
    await gate.arrival()
    for number in 0..<10 { try await store.set([7, 8, 9], forKey: Key("tail \(number)")) }
    gate.open()
    _ = try await compaction.value
    storage.setScript(nil)
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    _ = try index(in: copy)
    return copy
  }

  private func lastOpenSegment(_ directory: TestDirectory) throws -> URL {
    try #require(try directory.segments().last { try !$0.header.flags.contains(.compacted) })
  }

  /// Regression: the log lost its end, as a file-by-file copy or a lying disk may cause. The
  /// checkpoint was used, and the repair listed zeros as sealed.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func checkpointThatCoversMoreThanTheLogIsNotUsed(mode: Store.Configuration.IOMode) async throws {
    let directory = try await killed(mode)
    let url = try lastOpenSegment(directory)
    var bytes = [UInt8](try Data(contentsOf: url))
    // Only the first of the ten records is left.
    let start = try url.header.headerLength
    let first = bytes.withUnsafeBytes { aligned(RecordHeader.length(at: $0.baseAddress! + start)) }
    for place in start + first..<bytes.count { bytes[place] = 0 }
    try Data(bytes).write(to: url)
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    #expect(await store.recoveryReport.checkpointProblem?.code == .corrupted)
    #expect(try await store.count() == 11)
    #expect(try await store.value(forKey: "tail 0") == [7, 8, 9])
    #expect(try await store.value(forKey: "tail 1") == nil)
    try await store.close()
    let again = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(try await again.count() == 11)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func checkpointThatCoversAnOpenSegmentIsUsed(mode: Store.Configuration.IOMode) async throws {
    let directory = try await killed(mode)
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(await store.recoveryReport.usedCheckpoint)
    #expect(try await store.count() == 20)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: the figures of an open segment were believed. One of which the checkpoint counted
  /// no record was removed. Other wrong figures were listed, and the store could not be opened
  /// without its checkpoint any more.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional], 0..<4)
  func checkpointThatMiscountsAnOpenSegmentIsNotUsed(
    mode: Store.Configuration.IOMode, lie: Int
  ) async throws {
    let directory = try await killed(mode)
    let open = try lastOpenSegment(directory).header.number
    try CheckpointForgery(directory: directory).change { header, _ in
      let found = header.segments.firstIndex { $0.number == open }
      let place = try #require(found)
      switch lie {
      case 0: header.segments[place].recordCount = 0
      case 1: header.segments[place].recordCount += 1
      case 2: header.segments[place].firstSequence -= 1
      default: header.segments[place].lastSequence -= 1
      }
    }
    let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    #expect(await store.recoveryReport.usedCheckpoint == false)
    #expect(await store.recoveryReport.checkpointProblem?.file?.hasSuffix(".index") == true)
    #expect(try await store.count() == 20)
    try await store.close()
    for name in try directory.names() where name.hasSuffix(".index") {
      try FileManager.default.removeItem(at: directory.store.appendingPathComponent(name))
    }
    let again = try Store(at: directory.path, configuration: .testing(ioMode: mode))
    for number in 0..<10 {
      #expect(try await again.value(forKey: Key("old \(number)")) == [1, 2, 3])
      #expect(try await again.value(forKey: Key("tail \(number)")) == [7, 8, 9])
    }
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Regression: a backup replaced a newer log, and the checkpoint of the newer log stayed in the
  /// directory. It was ignored at first; after the log had grown for a while, the checkpoint seemed
  /// to fit, and hid keys.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func checkpointOfAReplacedLogIsRemoved(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing(ioMode: mode)
    configuration.compaction = .manual
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([1], forKey: "k")
      try await store.set([2], forKey: "j")
    }
    let backup = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: backup.store)
    configuration.checkpointFloorBytes = 0
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.set([3], forKey: "m")
    }
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.removeValue(forKey: "m")
      try await store.removeValue(forKey: "k")
      try await store.compact(segments: 1..<2)
    }
    let left = try index(in: directory)
    try FileManager.default.copyItem(
      at: left, to: backup.store.appendingPathComponent(left.lastPathComponent))
    configuration.checkpointFloorBytes = 1 << 20
    let store = try Store(at: backup.path, configuration: configuration)
    #expect(await store.recoveryReport.removedFiles.contains(left.lastPathComponent))
    #expect(try await store.value(forKey: "k") == [1])
    try await store.set([4], forKey: "z")
    let killed = try TestDirectory()
    try FileManager.default.copyItem(at: backup.store, to: killed.store)
    try await store.close()
    let again = try Store(at: killed.path, configuration: configuration)
    #expect(try await again.value(forKey: "z") == [4])
    #expect(try await again.value(forKey: "k") == [1])
    #expect(try await again.verify().isSound)
    try await again.close()
  }
}
