import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A process reads while others rotate, compact and leave, at the worst moments.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SharedFollowingTests {
  /// A manifest may list a segment before a reader has learned how long it may become.
  @Test func segmentMappedWhileShortIsReadInFull() async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.shared(segmentSizeBytes: 16 << 20)
    configuration.compaction = .manual
    let writer = try Store(at: directory.path, configuration: configuration)
    try await writer.set([0], forKey: "a")
    let reader = try Store(at: directory.path, configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [0])
    try await writer.sealForCompaction()
    try await writer.set([1], forKey: "b")
    try await reader.readTheManifestAlone()
    let random = (0..<65536).map { _ in UInt8.random(in: 0...255) }
    for number in 0..<100 { try await writer.set(random, forKey: Key("\(number)")) }
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "c")
    #expect(try await reader.value(forKey: "99") == random)
    #expect(try await reader.verify().isSound)
    for store in [writer, reader] { try await store.close() }
  }

  /// Another process rotates after the reader listed the directory and before it reads the
  /// manifest.
  @Test(arguments: SharedStoreTests.modes)
  func segmentCreatedAfterTheListingIsRead(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    let slow = FaultStorage(memory)
    var configuration = Store.Configuration.shared(mode)
    configuration.compaction = .manual
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    try await writer.set([0], forKey: "a")
    let reader = try Store(on: slow, at: "store", configuration: configuration)
    #expect(try await reader.value(forKey: "a") == [0])
    try await writer.sealForCompaction()
    try await writer.set([1], forKey: "b")
    let gate = Gate()
    slow.setScript { event in
      event.operation == .openFile && event.file == Manifest.fileName ? .hang(gate) : nil
    }
    async let answer = ThreadExecutor.run { try await reader.value(forKey: "b") }
    await gate.arrival()
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "c")
    slow.setScript(nil)
    gate.open()
    #expect(try await answer == [1])
    #expect(try await reader.value(forKey: "c") == [2])
    for store in [writer, reader] { try await store.close() }
  }

  /// Records that were read and could not be applied are applied when they can be read again.
  @Test func aReadThatFailsOnceLeavesNothingOut() async throws {
    let memory = MemoryStorage()
    let faulty = FaultStorage(memory)
    let configuration = Store.Configuration.shared(.positional)
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    try await writer.set([0], forKey: "0")
    let reader = try Store(on: faulty, at: "store", configuration: configuration)
    #expect(try await reader.value(forKey: "0") == [0])
    for number in 0..<10 { try await writer.set([1], forKey: Key("\(number)")) }
    // The first read fetches the new records; the second read looks up the older record of a key.
    let count = Mutex(0)
    faulty.setScript { event in
      guard event.operation == .read else { return nil }
      return count.withLock { count in
        count += 1
        return count == 2 ? .fail(.ioError) : nil
      }
    }
    await #expect(throws: StoreError.self) { try await reader.value(forKey: "5") }
    faulty.setScript(nil)
    #expect(try await reader.value(forKey: "5") == [1])
    #expect(try await reader.contents().count == 10)
    try await writer.compact()
    #expect(try await reader.verify().isSound)
    for store in [writer, reader] { try await store.close() }
  }

  /// Regression: each segment that another process had filled kept a descriptor.
  @Test func followingKeepsNoDescriptorOfAMappedSegment() async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.shared(segmentSizeBytes: 64 << 10)
    configuration.compaction = .manual
    let writer = try Store(at: directory.path, configuration: configuration)
    let reader = try Store(at: directory.path, configuration: configuration)
    var counts: [Int] = []
    for number in 0..<20 as Range<UInt8> {
      try await writer.set([number], forKey: "a")
      #expect(try await reader.value(forKey: "a") == [number])
      try await writer.sealForCompaction()
      #expect(try await reader.value(forKey: "a") == [number])
      counts.append(try directory.descriptorCount())
    }
    // Files of the segment that is sealed or created now may be open for a moment.
    #expect(counts[19] <= counts[0] + 4, "\(counts)")
    for store in [writer, reader] { try await store.close() }
  }

  /// A write of a process is acknowledged while a compaction of the same process still holds the
  /// lock.
  @Test func writeAcknowledgedUnderASharedLeaseIsVisibleToAllProcesses() async throws {
    let memory = MemoryStorage()
    let writer = try Store(on: memory, at: "store", configuration: .shared())
    try await writer.set([0], forKey: "a")
    let reader = try Store(on: memory, at: "store", configuration: .shared())
    #expect(try await writer.acquireWriterLease())
    try await writer.set([1], forKey: "a")
    #expect(try await reader.value(forKey: "a") == [1])
    await writer.releaseWriterLease()
    for store in [writer, reader] { try await store.close() }
  }

  /// A reader without mappings no longer finds a file by its name after another process has
  /// compacted it away.
  @Test(arguments: [Store.Configuration.Sharing.shared, .exclusive], [false, true])
  func filesRemovedByAnotherProcessDoNotFailAReader(
    sharing: Store.Configuration.Sharing, isFirst: Bool
  ) async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.shared(.positional, segmentSizeBytes: 600)
    configuration.compaction = .manual
    let slow = FaultStorage(memory)
    var readOnly = configuration
    readOnly.sharing = sharing
    readOnly.isReadOnly = true
    var writer = try Store(on: memory, at: "store", configuration: configuration)
    // More segments than files are kept open.
    for number in 0..<1500 { try await writer.set([1], forKey: Key("\(number)")) }
    if isFirst { try await writer.close() }
    let reader = try Store(on: slow, at: "store", configuration: readOnly)
    if isFirst { writer = try Store(on: memory, at: "store", configuration: configuration) }
    if !isFirst, sharing == .shared {
      // The reader has looked for changes, and opens the file only then.
      let gate = Gate()
      slow.setScript { event in
        event.operation == .openFile && event.file.hasSuffix(".segment") ? .hang(gate) : nil
      }
      async let answer = ThreadExecutor.run { try await reader.value(forKey: "3") }
      await gate.arrival()
      try await writer.compact()
      slow.setScript(nil)
      gate.open()
      #expect(try await answer == [1])
    } else {
      try await writer.compact()
    }
    #expect(try await reader.value(forKey: "7") == [1])
    try await writer.removeValue(forKey: "1399")
    try await writer.compact()
    #expect(try await reader.contains("9"))
    try await writer.removeValue(forKey: "38")
    try await writer.compact()
    #expect(try await reader.contents().count >= 1498)
    for store in [writer, reader] { try await store.close() }
  }

  /// Regression: the image of a checkpoint had the records of another process, and ended in the log
  /// before them. The next opening discarded it.
  @Test(arguments: SharedStoreTests.modes)
  func checkpointBesideAnotherWriterIsOfOneState(mode: Store.Configuration.IOMode) async throws {
    let memory = MemoryStorage()
    var configuration = Store.Configuration.shared(mode)
    configuration.compaction = .manual
    let store = try Store(on: memory, at: "store", configuration: configuration)
    try await store.set([1], forKey: "a")
    let other = try Store(on: memory, at: "store", configuration: configuration)
    let gate = Gate()
    await store.hold(gate)
    await gate.arrival()
    let checkpoint = Task { try await store.writeCheckpointBesideOthers() }
    while await !store.waitsForItsPipeline { await Task.yield() }
    try await other.set([2], forKey: "b")
    #expect(try await store.value(forKey: "b") == [2])
    gate.open()
    try await checkpoint.value
    for store in [other, store] { try await store.close() }
    let again = try Store(on: memory, at: "store", configuration: configuration)
    let report = await again.recoveryReport
    #expect(report.usedCheckpoint)
    #expect(report.checkpointProblem == nil)
    #expect(try await again.contents() == ["a": [1], "b": [2]])
    try await again.close()
  }
}

extension Store {
  /// Makes the jobs of the pipeline wait.
  fileprivate func hold(_ gate: Gate) { pipeline.enqueue { _ in gate.pass() } }

  fileprivate var waitsForItsPipeline: Bool { pipeline.monitor.withLock { !$0.jobs.isEmpty } }

  fileprivate func writeCheckpointBesideOthers() async throws {
    try await writeCheckpoint(on: SerialQueue(.background))
  }

  /// Reads like a process that looks after another process has published the manifest and before it
  /// publishes the page.
  fileprivate func readTheManifestAlone() throws(StoreError) {
    var hasBegun = false
    let isKnown = try engine!.followManifest(SharedPage.Publication(), &hasBegun)
    #expect(isKnown)
  }
}
