import Foundation
import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A harmless failure leaves no trace: no wait, no thread, no file, no poison.
@Suite(.timeLimit(.minutes(10))) struct FailedAttemptTests {
  /// Regression: a put that failed used up a number, and `sync()` waited for that number, and
  /// synced again and again.
  @Test func syncEndsAfterAPutThatFailed() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: .positional))
    try await store.set([1], forKey: "a")
    storage.setScript { $0.operation == .write ? .fail(.noSpace) : nil }
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    storage.setScript(nil)
    storage.clearTrace()
    try await store.sync()
    #expect(storage.trace.count { $0.operation == .synchronizeData } == 1)
    try await store.close()
  }

  /// Regression: each opening left a thread that waited for work for ever.
  @Test func anOpeningThatFailsEndsItsThread() async throws {
    let directory = try TestDirectory()
    let holder = try Store(at: directory.path, configuration: .testing())
    try await holder.set([1], forKey: "a")
    let before = try threadCount()
    for _ in 0..<400 {
      await #expect(throws: StoreError.self) { _ = try await Store.open(at: directory.path) }
    }
    // The threads end a little later; other tests have threads too.
    while try threadCount() > before + 100 { await Task.yield() }
    try await holder.close()
  }

  /// Returns 0 where the system does not report the number.
  private func threadCount() throws -> Int {
    guard FileManager.default.fileExists(atPath: "/proc/self/task") else { return 0 }
    return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count
  }

  /// Regression: the manifest that lists a full segment as sealed is written in the background. An
  /// error that kept this write from beginning ended writing for good.
  @Test(arguments: [Errno.tooManyOpenFiles, .tooManyOpenFilesInSystem, .noSpace])
  func aManifestThatCannotBeBegunInTheBackgroundPoisonsNothing(errno: Errno) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(segmentSizeBytes: 1000))
    try await store.set([1], forKey: "a")
    let births = Mutex(0)
    storage.setScript { event in
      guard event.operation == .createFile, event.file == "MANIFEST.tmp" else { return nil }
      return births.withLock { count in
        count += 1
        // The first manifest lists both segments as open; the second is the one that the background
        // writes.
        return count == 2 ? .fail(errno) : nil
      }
    }
    var number = 0
    while try await store.statistics().segmentCount < 2 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      number += 1
    }
    try await store.set([2], forKey: "b", durability: .sync)
    #expect(births.withLock { $0 } == 2)
    #expect(store.poison == nil)
    try await store.close()
    let again = try Store(on: storage, at: "store")
    #expect(try await again.count() == number + 2)
    try await again.close()
  }

  /// Regression: each refused put left one more segment file.
  @Test func refusedRotationsLeaveNoFiles() async throws {
    let directory = try TestDirectory()
    let storage = FaultStorage(DiskStorage())
    let store = try Store(
      on: storage, at: directory.path, configuration: .testing(segmentSizeBytes: 1000))
    try await store.set([1], forKey: "a")
    storage.setScript { event in
      event.operation == .write && event.file == "MANIFEST.tmp" ? .fail(.noSpace) : nil
    }
    var refused = 0
    for number in 0..<5000 where refused < 20 {
      do throws(StoreError) {
        try await store.set([UInt8](0..<50), forKey: Key("\(number)"))
      } catch {
        #expect(error.code == .noSpace)
        refused += 1
      }
    }
    storage.setScript(nil)
    #expect(refused == 20)
    #expect(try directory.segments().count <= (try await store.statistics().segmentCount) + 1)
    try await store.set([1], forKey: "b", durability: .sync)
    try await store.close()
  }

  /// The kernel may refuse another mapping (`vm.max_map_count`).
  @Test func segmentIsWrittenWithoutAMappingWhenMappingFails() async throws {
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { $0.operation == .map ? .fail(.noMemory) : nil }
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    #expect(storage.trace.contains { $0.operation == .map })
    #expect(storage.trace.contains { $0.operation == .write && $0.file == "0000000001.segment" })
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  /// Regression: on btrfs, space that was allocated covers only the first write of each block. The
  /// next write through the mapping ended the process with SIGBUS when the disk was full.
  @Test func segmentIsWrittenWithoutAMappingWhereBlocksAreNotKeptInPlace() async throws {
    let storage = FaultStorage(MemoryStorage())
    storage.isCopyOnWrite = true
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: .mapped))
    try await store.set([1], forKey: "a", durability: .sync)
    let segment = storage.trace.filter { $0.file == "0000000001.segment" }.map(\.operation)
    #expect(segment.contains(.write) && !segment.contains(.map) && !segment.contains(.allocate))
    #expect(try await store.value(forKey: "a") == [1])
    try await store.close()
  }

  /// The page of a shared store has no other place: it is used without the flag.
  @Test func sharedStoreWorksWhereBlocksAreNotKeptInPlace() async throws {
    let storage = FaultStorage(MemoryStorage())
    storage.isCopyOnWrite = true
    let first = try Store(on: storage, at: "store", configuration: .shared(.mapped))
    let second = try Store(on: storage, at: "store", configuration: .shared(.mapped))
    try await first.set([1], forKey: "a", durability: .sync)
    try await second.set([2], forKey: "b", durability: .sync)
    let segment = storage.trace.filter { $0.file == "0000000001.segment" }.map(\.operation)
    #expect(segment.contains(.write) && !segment.contains(.allocate))
    #expect(try await first.contents() == ["a": [1], "b": [2]])
    #expect(try await second.contents() == ["a": [1], "b": [2]])
    for store in [first, second] { try await store.close() }
  }

  /// Regression: a read that failed once while a keyspace was made ordered ended all writing,
  /// because the manifest said already that the keyspace was ordered.
  @Test func keyspaceStaysHashedWhenAReadFailsWhileItIsOrdered() async throws {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration.testing(ioMode: .positional)
    configuration.ordersKeyspaces = false
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let keyspace = try store.keyspace(named: "k")
    for number in 0..<20 { try await keyspace.set([1], forKey: Key("\(number)")) }
    let (renames, reads) = (CallCounter(), CallCounter())
    storage.setScript { event in
      if event.operation == .rename { _ = renames.next() }
      guard renames.value > 0, event.operation == .read, event.file.hasSuffix(".segment") else {
        return nil
      }
      return reads.next() == 0 ? .fail(.ioError) : nil
    }
    let error = await #expect(throws: StoreError.self) {
      try await store.orderedKeyspace(named: "k").count(in: .all)
    }
    #expect(error?.code == .io)
    #expect(store.poison == nil)
    storage.setScript(nil)
    try await keyspace.set([2], forKey: "0")
    #expect(try await store.orderedKeyspace(named: "k").count(in: .all) == 20)
    #expect(try await store.orderedKeyspace(named: "k").first()?.value == [2])
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Regression: a full disk may refuse even to cut a file. A put that had written nothing then
  /// ended all writing, instead of being refused.
  @Test func aRefusedPutThatWroteNothingIsNotCutOff() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: .positional))
    try await store.set([1], forKey: "a")
    storage.setScript { event in
      let isCut = event.operation == .truncate && event.file == "0000000001.segment"
      return isCut || event.operation == .write ? .fail(.noSpace) : nil
    }
    let refusal = await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    #expect(refusal?.code == .noSpace)
    #expect(store.poison == nil)
    storage.setScript(nil)
    try await store.set([3], forKey: "b", durability: .sync)
    #expect(try await store.value(forKey: "b") == [3])
    try await store.close()
  }

  @Test func aPutThatWroteAPartAndCannotBeCutOffEndsWriting() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: .positional))
    try await store.set([1], forKey: "a")
    storage.setScript { event in
      guard event.file == "0000000001.segment" else { return nil }
      switch event.operation {
      case .write: return .partial(lengthBytes: 1, .noSpace)
      case .truncate: return .fail(.noSpace)
      default: return nil
      }
    }
    await #expect(throws: StoreError.self) { try await store.set([2], forKey: "b") }
    #expect(store.poison != nil)
    storage.setScript(nil)
    let error = await #expect(throws: StoreError.self) { try await store.set([3], forKey: "b") }
    #expect(error?.code == .poisoned)
    try await store.close()
  }

  /// Regression: a kill between the creation of the reserve and its allocation left an empty file,
  /// which passed for a reserve.
  @Test func emptyReserveFileIsAllocatedAgain() async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path) { try await $0.set([1], forKey: "a") }
    let reserve = directory.store.appendingPathComponent("RESERVE")
    try Data().write(to: reserve)
    let store = try Store(at: directory.path, configuration: .testing())
    try await store.set([2], forKey: "b")
    #expect(try Data(contentsOf: reserve).count > 0)
    try await store.close()
  }
}
