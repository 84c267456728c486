import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// The orders of steps that durability depends on (rules 1 to 3), read from a trace.
@Suite struct OrderTests {
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func segmentsAreCreatedSealedAndListedInOrder(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(segmentSizeBytes: 1000, ioMode: mode))
    try await store.set([1], forKey: "a")
    #expect(storage.trace.contains { $0.operation == .createDirectory })
    var number = 0
    while try await store.statistics().segmentCount < 2 {
      try await store.set([UInt8](0..<50), forKey: "\(number)")
      number += 1
    }
    try await store.set([1], forKey: "last", durability: .sync)
    let trace = storage.trace
    for (file, next) in [("0000000001.segment", "0000000002.segment")] {
      // Creation: the file is created, its header written, the file synced, the directory synced;
      // then a manifest lists it.
      let birth = try steps(
        in: trace,
        [
          (.createFile, next), (.write, next), (.synchronizeFull, next),
          (.synchronizeDirectory, "store"), (.createFile, "MANIFEST.tmp"),
          (.write, "MANIFEST.tmp"), (.synchronizeFull, "MANIFEST.tmp"), (.rename, "MANIFEST.tmp"),
          (.synchronizeDirectory, "store"),
        ])
      // Seal: truncated, synced, and listed as sealed, all before a record of the next segment is
      // synced.
      let seal = try steps(
        in: trace,
        [
          (.truncate, file), (.synchronizeFull, file), (.synchronizeFull, "MANIFEST.tmp"),
          (.rename, "MANIFEST.tmp"), (.synchronizeDirectory, "store"), (.synchronizeData, next),
        ])
      #expect(birth.last! < seal.first!)
    }
    try await store.close()
  }

  /// The directory may be left from a creation that a crash interrupted, and its name may not be
  /// durable.
  @Test func aDirectoryThatExistsAlreadyIsMadeDurable() async throws {
    let memory = MemoryStorage()
    try memory.createDirectory("store")
    let storage = FaultStorage(memory)
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a")
    _ = try steps(in: storage.trace, [(.synchronizeParent, "store"), (.rename, "MANIFEST.tmp")])
    try await store.close()
  }

  /// The part of an open segment that a dead process has left is copied, and the manifest lists the
  /// copy only when its bytes and its name are durable. From then on the copy is read.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func unprovenTailIsCopiedBeforeTheCopyIsListed(mode: Store.Configuration.IOMode) async throws {
    let disk = SimulatedDisk()
    let dead = try disk.openStore(configuration: .testing(ioMode: mode))
    try await dead.set([1], forKey: "a")
    let storage = FaultStorage(SimulatedDisk(disk.moment()))
    try await dead.close()
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: mode))
    #expect(try await store.value(forKey: "a") == [1])
    let (name, copy) = ("0000000001.segment", "SEGMENT.tmp")
    let places = try steps(
      in: storage.trace,
      [
        (.synchronizeParent, "store"), (.synchronizeDirectory, "store"), (.entries, "store"),
        (.createFile, copy), (.write, copy), (.synchronizeFull, copy), (.rename, copy),
        (.synchronizeDirectory, "store"), (.createFile, "MANIFEST.tmp"), (.rename, "MANIFEST.tmp"),
      ])
    let renaming = places[6]
    #expect(
      storage.trace[renaming...].contains { $0.operation == .openFile && $0.file == name },
      "the copy is opened")
    let changes: [StorageEvent.Operation] = [.createFile, .remove, .rename, .write, .truncate]
    let first = try #require(
      storage.trace.firstIndex { changes.contains($0.operation) && $0.file != "LOCK" })
    #expect(first > places[1], "nothing is changed before the names are durable")
    try await store.close()
  }

  /// Returns the places of the steps in the trace, each after the previous one.
  private func steps(
    in trace: [StorageEvent], _ wanted: [(StorageEvent.Operation, String)]
  ) throws -> [Int] {
    var places: [Int] = []
    for (operation, file) in wanted {
      let start = (places.last ?? -1) + 1
      let place = trace[start...].firstIndex { $0.operation == operation && $0.file == file }
      places.append(
        try #require(place, "no \(operation.rawValue) of \(file) after \(places.last ?? 0)"))
    }
    return places
  }
}

@Suite struct MovedDirectoryTests {
  /// The folder of an open store is moved, and another folder takes its place.
  @Test(arguments: [true, false])
  func aMovedDirectoryIsNoticedAtTheNextSwap(atClose: Bool) async throws {
    let memory = MemoryStorage()
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000)
    let store = try Store(on: memory, at: "store", configuration: configuration)
    try await store.set([1], forKey: "a")
    try memory.renameDirectory("store", to: "elsewhere")
    let other = try Store(on: memory, at: "store", configuration: configuration)
    try await other.set([2], forKey: "other")
    try await other.close()
    if atClose {
      await #expect(throws: StoreError.self) { try await store.close() }
    } else {
      let failure = await firstFailure(store)
      #expect(failure != nil)
      let error = await #expect(throws: StoreError.self) { try await store.set([1], forKey: "b") }
      #expect(error?.code == .storeReplaced)
      #expect(try await store.value(forKey: "a") == [1])
      await #expect(throws: StoreError.self) { try await store.close() }
    }
    let again = try Store(on: memory, at: "store", configuration: configuration)
    #expect(try await again.value(forKey: "other") == [2])
    #expect(try await again.count() == 1)
    try await again.close()
    let moved = try Store(on: memory, at: "elsewhere", configuration: configuration)
    #expect(try await moved.value(forKey: "a") == [1])
    #expect(try await moved.verify().isSound)
    try await moved.close()
  }

  private func firstFailure(_ store: Store) async -> StoreError? {
    for number in 0..<100 {
      do throws(StoreError) {
        try await store.set([UInt8](0..<50), forKey: "\(number)")
      } catch {
        return error
      }
    }
    return nil
  }
}
