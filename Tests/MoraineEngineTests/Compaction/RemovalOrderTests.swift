import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A segment is unlinked only when a manifest without it is durable (rule 3).
@Suite struct RemovalOrderTests {
  private static let publication: [(StorageEvent.Operation, String)] = [
    (.createFile, "MANIFEST.tmp"), (.write, "MANIFEST.tmp"), (.synchronizeFull, "MANIFEST.tmp"),
    (.rename, "MANIFEST.tmp"), (.synchronizeDirectory, "store"),
  ]

  /// Returns a store after a power failure that left a listed segment empty.
  private func storeWithAnEmptySegment(
    _ mode: Store.Configuration.IOMode
  ) async throws -> SimulatedDisk {
    let disk = SimulatedDisk()
    let store = try Store(on: disk, at: "store", configuration: .testing(ioMode: mode))
    try await store.set([1], forKey: "lost")
    let image = SimulatedDisk(disk.image(.nothing))
    try await store.close()
    return image
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func recoveryUnlinksLast(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(try await storeWithAnEmptySegment(mode))
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: mode))
    let trace = storage.trace
    let removal = try #require(
      trace.firstIndex { $0.operation == .remove && $0.file == "0000000001.segment" })
    try expect(Self.publication, in: trace[..<removal])
    #expect(try await store.count() == 0)
    try await store.close()
  }

  /// Where one of these steps fails, the segment must still exist, and the store must open.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional], publication.indices)
  func nothingIsUnlinkedWhenAStepFails(mode: Store.Configuration.IOMode, step: Int) async throws {
    let disk = try await storeWithAnEmptySegment(mode)
    let storage = FaultStorage(disk)
    let (operation, file) = Self.publication[step]
    storage.setScript { event in
      event.operation == operation && event.file == file ? .fail(.ioError) : nil
    }
    let error = #expect(throws: StoreError.self) {
      try Store(on: storage, at: "store", configuration: .testing(ioMode: mode))
    }
    #expect(error?.errno == .ioError)
    let removed = storage.trace.filter { $0.operation == .remove && $0.file.hasSuffix(".segment") }
    #expect(removed.isEmpty)
    for policy in [CrashPolicy.nothing, .everything] {
      let image = SimulatedDisk(disk.image(policy))
      let again = try Store(on: image, at: "store", configuration: .testing(ioMode: mode))
      try await again.set([2], forKey: "new", durability: .sync)
      #expect(try await again.verify().isSound)
      try await again.close()
    }
  }

  /// The bytes and the name of the output, then the manifest; the inputs are removed last.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func compactionUnlinksLast(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(
      on: storage, at: "store", configuration: .testing(segmentSizeBytes: 1000, ioMode: mode))
    var number = 0
    while try await store.statistics().segmentCount < 3 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number % 12)"))
      number += 1
    }
    try await store.sync()
    storage.clearTrace()
    try await store.compact(segments: 0..<2)
    let trace = storage.trace
    let output = try #require(
      trace.last { $0.operation == .createFile && $0.file.hasSuffix(".segment") }?.file)
    let removal = try #require(
      trace.firstIndex { $0.operation == .remove && $0.file == "0000000001.segment" })
    let copy: [(StorageEvent.Operation, String)] = [
      (.createFile, output), (.write, output), (.synchronizeFull, output),
      (.synchronizeDirectory, "store"),
    ]
    try expect(copy + Self.publication, in: trace[..<removal])
    try await store.close()
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func closeSealsTheLogBeforeTheManifestIsPublished(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing(ioMode: mode))
    try await store.set([1], forKey: "a")
    storage.clearTrace()
    try await store.close()
    let seal: [(StorageEvent.Operation, String)] = [
      (.truncate, "0000000001.segment"), (.synchronizeFull, "0000000001.segment"),
    ]
    try expect(seal + Self.publication, in: storage.trace[...])
    let afterwards = storage.trace.last { $0.operation == .write || $0.operation == .rename }
    #expect(afterwards?.operation == .rename, "nothing is written after the publication")
  }

  /// Expects each step after the previous one.
  private func expect(
    _ steps: [(StorageEvent.Operation, String)], in trace: ArraySlice<StorageEvent>
  ) throws {
    var rest = trace
    for (operation, file) in steps {
      let place = try #require(
        rest.firstIndex { $0.operation == operation && $0.file == file },
        "no \(operation.rawValue) of \(file) in \(rest)")
      rest = rest[(place + 1)...]
    }
  }
}
