import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Compactions that cannot continue: nothing is lost, and the next compaction may succeed.
@Suite(.timeLimit(.minutes(10))) struct CompactionRefusalTests {
  private static let modes = [Store.Configuration.IOMode.mapped, .positional]
  private static let value = [UInt8](0..<200)

  private func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode)
    configuration.compaction = .manual
    configuration.compaction.sharesDictionaries = false
    configuration.checkpointFloorBytes = 1 << 40
    return configuration
  }

  /// Every second key is deleted, so that every segment has garbage and live records.
  private func store(
    on storage: any Storage, at path: FilePath, _ mode: Store.Configuration.IOMode
  ) async throws -> Store {
    let store = try Store(on: storage, at: path, configuration: configuration(mode))
    for number in 0..<60 { try await store.set(Self.value, forKey: Key("\(number)")) }
    for number in 0..<30 { try await store.removeValue(forKey: Key("\(number * 2)")) }
    return store
  }

  private func check(_ store: Store) async throws {
    #expect(try await store.count() == 30)
    for number in 0..<60 {
      let value = try await store.value(forKey: Key("\(number)"))
      #expect(value == (number % 2 == 0 ? nil : Self.value))
    }
    #expect(try await store.verify().isSound)
    #expect(store.poison == nil)
  }

  /// Regression: on a full disk without a reserve, the manifest that seals the active segment had
  /// no space, and the compaction ended, although the sealed segments were full of garbage.
  @Test(arguments: modes)
  func compactionBeginsWithTheSealedSegmentsWhenTheActiveOneCannotBeSealed(
    mode: Store.Configuration.IOMode
  ) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, at: "store", mode)
    let before = try await store.statistics().diskBytes
    let refusals = Mutex(0)
    let hasOutput = Mutex(false)
    storage.setScript { event in
      guard event.operation == .createFile else { return nil }
      if event.file.hasSuffix(".segment") { hasOutput.withLock { $0 = true } }
      // No manifest finds space, however often the seal tries, before the compaction has begun to
      // write a segment.
      guard event.file == Manifest.temporaryFileName, !hasOutput.withLock({ $0 }) else {
        return nil
      }
      refusals.withLock { $0 += 1 }
      return .fail(.noSpace)
    }
    try await store.compact()
    #expect(refusals.withLock { $0 } > 0)
    #expect(hasOutput.withLock { $0 })
    #expect(try await store.statistics().diskBytes < before * 3 / 4)
    storage.setScript(nil)
    try await check(store)
    try await store.close()
  }

  /// Compaction finds no room, neither in new space nor in the reserve, not even for the segment
  /// with the fewest live bytes.
  ///
  /// - Parameter last: the error of the attempt on that segment.
  @Test(arguments: modes, [Errno.noSpace, .ioError])
  func compactionWithoutAnySpaceGivesUp(mode: Store.Configuration.IOMode, last: Errno) async throws
  {
    let storage = FaultStorage(MemoryStorage())
    let store = try await store(on: storage, at: "store", mode)
    let before = try await store.segmentStatistics().map(\.number)
    let births = Mutex(0)
    storage.setScript { event in
      guard event.operation == .createFile, event.file.hasSuffix(".segment") else { return nil }
      // The first attempt, the same attempt with the reserve, and then the cheapest segment.
      return .fail(
        births.withLock { count in
          count += 1
          return count < 3 ? .noSpace : last
        })
    }
    let error = await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(births.withLock { $0 } == 3)
    #expect(error?.errno == last)
    #expect(error?.code == (last == .noSpace ? .noSpace : .io))
    storage.setScript(nil)
    let after = try await store.segmentStatistics().map(\.number)
    #expect(Array(after.prefix(before.count)) == before, "no input was removed")
    try await check(store)
    try await store.compact()
    #expect(try await store.segmentStatistics().map(\.number).first != before.first)
    try await check(store)
    try await store.close()
  }

  /// The bytes change after the record was read and before it is copied.
  @Test func recordThatChangesBeforeItsCopyIsNotCopied() async throws {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let store = try await store(on: storage, at: directory.path, .mapped)
    let segment = try #require(try directory.segments().first)
    let records = try segment.recordPlaces
    let victim = try #require(records.first { $0.key == Array("3".utf8) })
    let gate = Gate()
    // The output is created when the first live record was read; the victim is the next record.
    storage.setScript { event in
      event.operation == .createFile && event.file.hasSuffix(".segment") ? .hang(gate) : nil
    }
    async let outcome: StoreError? = failure { try await store.compact(segments: 0..<1) }
    await gate.arrival()
    let forgery = Forgery(directory: directory)
    let kind = try Data(contentsOf: segment)[victim.offset + 15]
    try forgery.overwrite(segment, at: victim.offset + 15, [0xF])
    gate.open()
    let error = await outcome
    storage.setScript(nil)
    #expect(error?.code == .corrupted)
    #expect(error?.file == segment.lastPathComponent)
    #expect(error?.offset == UInt64(victim.offset))
    #expect(FileManager.default.fileExists(atPath: segment.path))
    await #expect(throws: StoreError.self) { try await store.value(forKey: "3") }
    try forgery.overwrite(segment, at: victim.offset + 15, [kind])
    try await check(store)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration(.mapped))
    try await check(again)
    #expect(await again.recoveryReport.removedFiles.isEmpty, "the output was removed")
    try await again.close()
  }

  /// The contents of two segments may become longer where they no longer share a dictionary.
  @Test(arguments: modes)
  func segmentsThatDoNotFitTogetherAreRewrittenSeparately(
    mode: Store.Configuration.IOMode
  ) async throws {
    let storage = MemoryStorage()
    let store = try await store(on: storage, at: "store", mode)
    let before = try await store.segmentStatistics()
    try #require(before.count > 3)
    let outcome = try await store.rewriteFirst(2, limitBytes: Int(before[0].lengthBytes) / 2 + 200)
    #expect(outcome == [1, 1])
    let after = try await store.segmentStatistics()
    #expect(after[0].isCompacted && after[0].number != before[0].number)
    #expect(after.dropFirst().map(\.number) == before.dropFirst().map(\.number))
    #expect(await store.loners() == [after[0].number.rawValue])
    try await check(store)
    // Merged or not: records that do not fit are not lost.
    let error = await failure { _ = try await store.rewriteFirst(1, limitBytes: 600) }
    #expect(error?.code == .limitExceeded)
    #expect(error?.file?.hasSuffix(".segment") == true)
    #expect(try await store.segmentStatistics().map(\.number) == after.map(\.number))
    try await check(store)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration(mode))
    try await check(again)
    try await again.close()
  }

  private func failure(_ body: () async throws -> Void) async -> StoreError? {
    do { try await body() } catch let cause { return cause as? StoreError }
    Issue.record("nothing failed")
    return nil
  }
}

extension Store {
  /// Rewrites the first sealed segments, with outputs of at most `limitBytes` bytes.
  fileprivate func rewriteFirst(_ count: Int, limitBytes: Int) async throws(StoreError) -> [Int] {
    compaction.begin()
    defer { endCompaction() }
    let work = CompactionWork(
      pacer: CompactionPacer(policy: compactionPolicy, isUrgent: true),
      outputLimitBytes: limitBytes)
    let (taken, left) = try await rewrite(Array(engine!.compactable().prefix(count)), work)
    return [taken, left]
  }

  /// The numbers of the segments that cannot be merged.
  fileprivate func loners() -> [UInt64] {
    engine!.log.table.unmergeable.map { engine!.log.table.infos[$0].number.rawValue }
  }
}
