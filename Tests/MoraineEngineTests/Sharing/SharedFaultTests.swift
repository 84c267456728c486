import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Calls that fail at a shared store's worst moments.
@Suite(.timeLimit(.minutes(10))) struct SharedFaultTests {
  private let memory = MemoryStorage()
  private let faulty: FaultStorage

  init() { faulty = FaultStorage(memory) }

  private func open(
    on storage: (any Storage)? = nil, readOnly: Bool = false, segmentSizeBytes: Int = 64 << 20
  ) throws -> Store {
    var configuration = Store.Configuration.shared(segmentSizeBytes: segmentSizeBytes)
    configuration.compaction = .manual
    configuration.isReadOnly = readOnly
    return try Store(on: storage ?? memory, at: "store", configuration: configuration)
  }

  /// Fails the n-th of some calls, from 1 on, or all of them.
  private func fail(
    _ errno: Errno, _ operation: StorageEvent.Operation, _ name: String, number: Int? = 1
  ) {
    let count = Mutex(0)
    faulty.setScript { event in
      guard event.operation == operation, event.file.hasSuffix(name) else { return nil }
      let isDue = count.withLock { count in
        count += 1
        return number == nil || count == number
      }
      return isDue ? .fail(errno) : nil
    }
  }

  @Test func aFileOfSharingCannotBeMade() async throws {
    let alone = try Store(on: memory, at: "store", configuration: .testing())
    try await alone.set([1], forKey: "a")
    try await alone.close()
    fail(.ioError, .createFile, FileName.writerLock)
    let error = #expect(throws: StoreError.self) { try open(on: faulty) }
    #expect(error?.code == .io)
    faulty.setScript(nil)
    let store = try open(on: faulty)
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  /// A file that is marked as immutable.
  @Test func readerUsesAPageThatMayNotBeWritten() async throws {
    let store = try open()
    try await store.set([1], forKey: "a")
    fail(.notPermitted, .openFile, FileName.sharedPage)
    let directory = try #require(try faulty.openDirectory("store"))
    let link = try #require(try SharedLink(reading: directory))
    #expect(!link.page.isWritable)
    try await store.close()
  }

  @Test func anotherProcessMakesAFileOfSharingFirst() async throws {
    let alone = try Store(on: memory, at: "store", configuration: .testing())
    try await alone.set([1], forKey: "a")
    try await alone.close()
    let directory = try #require(try memory.openDirectory("store"))
    let isMade = Mutex(false)
    faulty.setScript { event in
      guard event.operation == .createFile, event.file == FileName.writerLock else { return nil }
      // On the storage below the faults, as another process does it.
      do { _ = try directory.createFile(event.file) } catch { Issue.record(error) }
      isMade.withLock { $0 = true }
      return nil
    }
    let store = try open(on: faulty)
    #expect(isMade.withLock { $0 })
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  @Test func aReadersPageCannotBeOpened() async throws {
    let writer = try open()
    try await writer.set([1], forKey: "a")
    fail(.ioError, .openFile, FileName.sharedPage)
    let error = #expect(throws: StoreError.self) { try open(on: faulty, readOnly: true) }
    #expect(error?.code == .io)
    try await writer.close()
  }

  /// A reader that may not write to the page cannot register to be woken, and looks at intervals.
  @Test func aReaderThatMayNotWriteToThePageFollowsAllTheSame() async throws {
    let writer = try open()
    try await writer.set([1], forKey: "a")
    // The page is opened for writing first, and then for reading.
    let tries = Mutex(0)
    faulty.setScript { event in
      guard event.operation == .openFile, event.file == FileName.sharedPage else { return nil }
      return tries.withLock { tries in
        tries += 1
        return tries % 2 == 1 ? .fail(.permissionDenied) : nil
      }
    }
    let reader = try open(on: faulty, readOnly: true)
    var values = reader.values(forKey: "a").makeAsyncIterator()
    #expect(try await values.next() == [1])
    try await writer.set([2], forKey: "a")
    #expect(try await values.next() == [2])
    try await reader.close()
    try await writer.close()
  }

  /// Its writes become durable nevertheless, and the store stays unchanged for the other processes.
  @Test func theWritersLockFailsWhileClosing() async throws {
    let leaving = try open(on: faulty)
    let staying = try open()
    try await leaving.set([1], forKey: "a")
    fail(.ioError, .lock, FileName.writerLock)
    let error = await #expect(throws: StoreError.self) { try await leaving.close() }
    #expect(error?.code == .io)
    #expect(leaving.durableSequence.rawValue == 1)
    try await staying.set([2], forKey: "b")
    #expect(try await staying.contents() == ["a": [1], "b": [2]])
    try await staying.close()
  }

  @Test func closeThrowsWhenTheLastStoreCannotSealTheLog() async throws {
    let store = try open(on: faulty)
    try await store.set([1], forKey: "a")
    fail(.noSpace, .createFile, "", number: nil)
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.code == .noSpace)
    faulty.setScript(nil)
    let again = try open()
    #expect(try await again.contents() == ["a": [1]])
    try await again.close()
  }

  /// No other process would remove the file that it allocated: the number is not used again.
  @Test func unlistedSegmentIsRemoved() async throws {
    let store = try open(on: faulty, segmentSizeBytes: 600)
    try await store.set([1], forKey: "a")
    let births = Mutex(0)
    faulty.setScript { event in
      if event.operation == .createFile, event.file.hasSuffix(".segment") {
        births.withLock { $0 += 1 }
      }
      // The manifest that would list the new segment.
      let isBorn = births.withLock { $0 > 0 }
      let isManifest = event.operation == .createFile && event.file == Manifest.temporaryFileName
      return isBorn && isManifest ? .fail(.noSpace) : nil
    }
    await #expect(throws: StoreError.self) {
      for number in 0..<100 { try await store.set([2], forKey: Key("\(number)")) }
    }
    faulty.setScript(nil)
    let directory = try #require(try memory.openDirectory("store"))
    let segments = try directory.entries().filter { $0.name.hasSuffix(".segment") }.count
    let before = try await store.statistics().segmentCount
    #expect(segments == before)
    try await store.set([3], forKey: "later")
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func theStoreVanishesWhileSuspended() async throws {
    let store = try open()
    try await store.set([1], forKey: "a")
    try await store.suspend()
    let directory = try #require(try memory.openDirectory("store"))
    for entry in try directory.entries() { try directory.remove(entry.name) }
    let error = await #expect(throws: StoreError.self) { try await store.resume() }
    #expect(error?.code == .notAStore)
    #expect(error?.message.contains("suspended") == true)
    try await store.close()
  }

  /// A process dies after it created a segment and before it appended to it; the disk is full when
  /// the next process takes over, and a third process has the empty segment mapped.
  @Test func anEmptySegmentOfADeadProcessIsGivenUp() async throws {
    let victim = try open()
    let survivor = try open(on: faulty)
    let third = try open()
    try await victim.set([1], forKey: "a", durability: .sync)
    #expect(try await survivor.value(forKey: "a") == [1])
    #expect(try await third.value(forKey: "a") == [1])
    try await victim.dieBehindABirth()
    try await third.seeTheManifestAlone()
    fail(.noSpace, .createFile, Manifest.temporaryFileName)
    try await survivor.set([2], forKey: "b", durability: .sync)
    faulty.setScript(nil)
    #expect(try await third.contents() == ["a": [1], "b": [2]])
    #expect(try await third.verify().isSound)
    for store in [third, survivor] { try await store.close() }
    withExtendedLifetime(victim) {}
  }

  /// Regression: readers saw the part of a dead writer's batch that was applied before the disk
  /// failed.
  @Test func readersSeeNoPartOfABatchWhenTakingOverFails() async throws {
    var configuration = Store.Configuration.shared(.positional)
    configuration.compaction = .manual
    // In an ordered keyspace, other reads come before those of the older records.
    configuration.ordersKeyspaces = false
    let victim = try Store(on: memory, at: "store", configuration: configuration)
    let keys: [Key] = ["a", "b"]
    for key in keys { try await victim.set([1], forKey: key) }
    try await victim.sealForCompaction()
    try await victim.set([1], forKey: "c")
    let survivor = try Store(on: faulty, at: "store", configuration: configuration)
    let reader = try await survivor.reader()
    for key in keys { #expect(try reader.value(forKey: key) == [1]) }
    try await victim.dieAfterABatch([2], forKeys: keys)
    // The second read of the sealed segment looks up the older record of the second key.
    fail(.ioError, .read, "0000000001.segment", number: 2)
    let error = await #expect(throws: StoreError.self) {
      try await survivor.set([3], forKey: "d")
    }
    #expect(error?.code == .io)
    for key in keys { #expect(try reader.value(forKey: key) == [1]) }
    faulty.setScript(nil)
    try await survivor.set([3], forKey: "d")
    for key in keys { #expect(try reader.value(forKey: key) == [2]) }
    #expect(try await survivor.verify().isSound)
    try await survivor.close()
    withExtendedLifetime(victim) {}
  }

  /// Regression: until the end of the compaction, every call said that segments were removed.
  @Test func aReadThatFailsOnceBesideACompactionIsNoDamage() async throws {
    var configuration = Store.Configuration.shared(.positional)
    configuration.compaction = .manual
    let writer = try Store(on: memory, at: "store", configuration: configuration)
    try await writer.set([1], forKey: "a")
    let compacting = try Store(on: faulty, at: "store", configuration: configuration)
    #expect(try await compacting.takeCompactor())
    try await compacting.beginRewriting()
    try await writer.set([2], forKey: "a")
    fail(.ioError, .read, ".segment")
    for _ in 0..<2 {
      let error = await #expect(throws: StoreError.self) {
        try await compacting.value(forKey: "a")
      }
      #expect(error?.code == .io)
    }
    let error = await #expect(throws: StoreError.self) {
      try await compacting.set([3], forKey: "b")
    }
    #expect(error?.code == .io)
    await compacting.freeCompactor()
    #expect(try await compacting.value(forKey: "a") == [2])
    try await compacting.set([3], forKey: "b")
    #expect(try await compacting.verify().isSound)
    for store in [compacting, writer] { try await store.close() }
  }

  /// Regression: a process that compacted took a dead writer's empty segment, which another process
  /// had just removed, for a missing file.
  @Test func anEmptySegmentIsGivenUpWhileAnotherProcessCompacts() async throws {
    let victim = try open()
    let survivor = try open()
    try await victim.set([1], forKey: "a")
    let compacting = try open(on: faulty)
    #expect(try await compacting.takeCompactor())
    try await compacting.beginRewriting()
    try await victim.set([2], forKey: "b")
    try await victim.sealForCompaction()
    try await victim.dieBehindABirth()
    let directory = try #require(try memory.openDirectory("store"))
    let manifest = try #require(try ManifestFile.readPresent(directory))
    let empty = try #require(manifest.segments.last).number.fileName
    let gate = Gate()
    faulty.setScript { event in
      event.operation == .openFile && event.file == empty ? .hang(gate) : nil
    }
    async let answer = ThreadExecutor.run { try await compacting.value(forKey: "b") }
    // Also when a call below throws: otherwise the test would wait for the read for ever.
    defer {
      faulty.setScript(nil)
      gate.open()
    }
    await gate.arrival()
    try await survivor.set([3], forKey: "c")
    let names = try directory.entries().map(\.name)
    #expect(!names.contains(empty))
    faulty.setScript(nil)
    gate.open()
    #expect(try await answer == [2])
    #expect(try await compacting.value(forKey: "c") == [3])
    await compacting.freeCompactor()
    #expect(try await compacting.verify().isSound)
    for store in [compacting, survivor] { try await store.close() }
    withExtendedLifetime(victim) {}
  }

  /// The report contains the damage, and the error that prevented a second check.
  @Test func verifyingBesideADamagedManifest() async throws {
    let store = try open()
    try await store.set([1], forKey: "a", durability: .sync)
    let directory = try #require(try memory.openDirectory("store"))
    let file = try #require(try directory.openFile(Manifest.fileName, .readWrite))
    try [UInt8](repeating: 0xFF, count: 40).withUnsafeBytes { try file.write($0, at: 0) }
    let report = try await store.verify()
    #expect(report.problems.count == 2 && report.problems.allSatisfy { $0.code == .corrupted })
    withExtendedLifetime(store) {}
  }
}

extension Store {
  fileprivate func dieBehindABirth() async throws(StoreError) {
    _ = try await acquireWriterLease()
    try await rotate(for: 100)
    engine?.log.link?.freeWriter()
  }

  /// Appends a batch like a process that is killed before it can publish.
  fileprivate func dieAfterABatch(
    _ value: [UInt8], forKeys keys: [Key]
  ) async throws(StoreError) {
    _ = try await acquireWriterLease()
    var batch = BatchOperations()
    for key in keys { batch.put(BatchOperations.Place(keyspace: 0, key: key), value) }
    guard case .done = try engine!.commit(batch, isDelete: false, nil) else {
      Issue.record("the append found no space")
      return
    }
    engine?.log.link?.freeWriter()
  }

  fileprivate func seeTheManifestAlone() throws(StoreError) {
    var hasBegun = false
    _ = try engine!.followManifest(SharedPage.Publication(), &hasBegun)
  }
}
