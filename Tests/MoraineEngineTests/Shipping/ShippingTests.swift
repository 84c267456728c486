import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// What a copy of the log elsewhere needs from the store.
@Suite(.timeLimit(.minutes(5))) struct ShippingTests {
  private static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  private static func store(
    _ mode: Store.Configuration.IOMode, on storage: any Storage = MemoryStorage()
  ) throws -> Store {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000, ioMode: mode)
    configuration.compaction = .manual
    configuration.durability = .none
    return try Store(on: storage, at: "store", configuration: configuration)
  }

  /// Whatever is written, deleted and compacted between the cuts, each cut is put together again
  /// from the copied bytes, with its count and its digest.
  @Test(arguments: modes, [1, 2, 3] as [UInt64])
  func eachCutIsPutTogetherFromTheCopiedBytes(
    mode: Store.Configuration.IOMode, seed: UInt64
  ) async throws {
    var random = SeededGenerator(seed: seed)
    let storage = MemoryStorage()
    let store = try Self.store(mode, on: storage)
    let users = try store.orderedKeyspace(named: "users")
    var copy = LogCopy()
    let retired = RetiredSegments(shippedThrough: .none, limitBytes: 1 << 30)
    var states: [[Key: [UInt8]]] = []
    for round in 0..<25 {
      for _ in 0..<Int.random(in: 1...60, using: &random) {
        let key = Key("key \(Int.random(in: 0..<50, using: &random))")
        let value = (0..<Int.random(in: 0..<120, using: &random)).map { _ in
          UInt8.random(in: .min ... .max, using: &random)
        }
        switch Int.random(in: 0..<10, using: &random) {
        case 0...1: try await store.removeValue(forKey: key)
        case 2: try await users.set(value, forKey: key)
        default: try await store.set(value, forKey: key)
        }
      }
      if round % 3 == 2 { _ = try await store.compact() }
      let cut = try #require(try await store.logCut())
      _ = try await store.durableState(of: cut, after: .none)
      if round == 0 {
        try copy.begin(at: cut)
        _ = await store.attach(retired)
      } else {
        let (held, hasGap) = retired.take()
        #expect(!hasGap)
        try copy.add(cut, held)
      }
      retired.shipped(through: cut.sequence)
      #expect(cut.count == (try await store.count()))
      // Also of segments that an earlier cut had, and whose records were replaced since.
      let figures = try await store.segmentStatistics().filter { $0.recordCount > 0 }
      #expect(cut.manifest.segments.map(\.liveBytes) == figures.map(\.liveBytes), "round \(round)")
      #expect(
        cut.manifest.segments.map(\.lengthBytes) == figures.map(\.lengthBytes), "round \(round)")
      states.append(try await store.everything())
    }
    for (index, point) in copy.points.enumerated() {
      let path = FilePath("restored \(index)")
      let report = try await copy.restore(point, to: path, on: storage)
      #expect(report.count == point.count, "seed \(seed), cut \(index)")
      let restored = try Store(on: storage, at: path, configuration: .testing())
      #expect(try await restored.everything() == states[index], "seed \(seed), cut \(index)")
      #expect(try await restored.attachment() == nil)
      try await restored.close()
    }
    try await store.close()
  }

  @Test(arguments: modes)
  func compactionHandsOverWhatWasNotCopied(mode: Store.Configuration.IOMode) async throws {
    let store = try Self.store(mode)
    for number in 0..<300 { try await store.set([1, 2, 3], forKey: Key("\(number % 7)")) }
    let first = try #require(try await store.logCut())
    let retired = RetiredSegments(shippedThrough: first.sequence, limitBytes: 1 << 30)
    _ = await store.attach(retired)
    for number in 0..<900 {
      try await store.set([UInt8(number & 255)], forKey: Key("\(number % 7)"))
    }
    _ = try await store.compact()
    let (held, hasGap) = retired.take()
    #expect(!hasGap)
    #expect(held.count > 1)
    #expect(held.allSatisfy { $0.entry.lastSequence > first.sequence })
    #expect(retired.heldBytes == held.reduce(0) { $0 + $1.lengthBytes })
    // The bytes are those of the files that exist no longer.
    for segment in held { try segment.verify(from: 0, to: segment.lengthBytes) }
    retired.shipped(through: held[0].entry.lastSequence)
    #expect(retired.take().segments.map(\.identity) == held.dropFirst().map(\.identity))
    retired.shipped(through: .max)
    #expect(retired.heldBytes == 0)
    // Compaction's own segments were never appended.
    for number in 0..<300 { try await store.set([1, 2, 3], forKey: Key("\(number % 7)")) }
    retired.shipped(through: try await store.sync())
    _ = try await store.compact()
    #expect(retired.take().segments.isEmpty)
    try await store.close()
  }

  @Test(arguments: modes)
  func segmentsBeyondTheLimitAreLetGoAndReported(mode: Store.Configuration.IOMode) async throws {
    let store = try Self.store(mode)
    let retired = RetiredSegments(shippedThrough: .none, limitBytes: 9000)
    _ = await store.attach(retired)
    for number in 0..<2000 { try await store.set([1, 2, 3], forKey: Key("\(number % 7)")) }
    _ = try await store.compact()
    #expect(retired.heldBytes <= 9000)
    let (held, hasGap) = retired.take()
    #expect(hasGap && !held.isEmpty)
    #expect(!retired.take().hasGap, "a gap is reported once")
    try await store.close()
  }

  /// A footer has no number, so the wait for the last operation does not include it.
  @Test func bytesOfADurableCutSurviveAPowerFailure() async throws {
    let disk = SimulatedDisk()
    var configuration = Store.Configuration.testing(segmentSizeBytes: 4000)
    configuration.compaction = .manual
    configuration.durability = .none
    let store = try disk.openStore(configuration: configuration)
    for number in 0..<200 {
      try await store.set([UInt8](repeating: 1, count: number % 50), forKey: Key("\(number)"))
      let cut = try #require(try await store.logCut())
      _ = try await store.durableState(of: cut, after: .none)
      let after = SimulatedDisk(disk.image(.nothing))
      let directory = try #require(try after.openDirectory("store"))
      for segment in cut.segments {
        let file = try #require(
          try directory.openFile(segment.entry.number.fileName, .read), "operation \(number)")
        let expected = try segment.all()
        var bytes = [UInt8](repeating: 0, count: expected.count)
        let got = try bytes.withUnsafeMutableBytes { (target) throws(StorageError) in
          try file.read(into: target, at: 0)
        }
        #expect(got == expected.count && bytes == expected, "operation \(number)")
      }
    }
    try await store.close()
  }

  @Test func changedBytesAreNotCopied() async throws {
    let storage = MemoryStorage()
    let store = try Self.store(.positional, on: storage)
    for number in 0..<50 { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    let cut = try #require(try await store.logCut())
    let segment = try #require(cut.segments.first)
    try segment.verify(from: 0, to: segment.lengthBytes)
    let file = try #require(
      try storage.openDirectory("store")?.openFile(segment.entry.number.fileName, .readWrite))
    let other: [UInt8] = [9]
    try other.withUnsafeBytes { try file.write($0, at: 150) }
    let error = #expect(throws: StoreError.self) {
      try segment.verify(from: 0, to: segment.lengthBytes)
    }
    #expect(error?.code == .corrupted && error?.offset == 128)
    let unfinished = #expect(throws: StoreError.self) {
      try segment.verify(from: segment.lengthBytes - 8, to: segment.lengthBytes)
    }
    #expect(unfinished?.code == .corrupted)
    try await store.close()
  }

  @Test func fencedStoreReadsAndDoesNotWrite() async throws {
    let store = try Self.store(.mapped)
    try await store.set([1], forKey: "a")
    store.fence("another machine writes the archive")
    let error = await #expect(throws: StoreError.self) { try await store.set([2], forKey: "a") }
    #expect(error?.code == .fenced)
    #expect(error?.message == "another machine writes the archive")
    #expect(try await store.value(forKey: "a") == [1])
    // The store closes without writing.
    do { try await store.close() } catch {}
  }

  @Test func attachmentLastsUntilTheNextAndIsNotCopied() async throws {
    let storage = MemoryStorage()
    var store = try Self.store(.mapped, on: storage)
    try await store.set([1], forKey: "a")
    let id = StoreIdentifier(low: 1, high: 2)
    for term in [3, 4] as [UInt64] {
      let attachment = Manifest.Attachment(archiveID: id, term: term)
      try await store.recordAttachment(attachment)
      try await store.set([2], forKey: "a")
      #expect(try await store.attachment() == attachment)
      #expect(try await store.logCut()?.manifest.attachment == nil)
      try await store.close()
      store = try Self.store(.mapped, on: storage)
      #expect(try await store.attachment() == attachment)
    }
    _ = try await store.backup(to: "backup", on: storage)
    try await store.close()
    _ = try await Store.restore("backup", to: "restored", on: storage)
    let restored = try Store(on: storage, at: "restored", configuration: .testing())
    #expect(try await restored.attachment() == nil)
    try await restored.close()
  }
}

/// A store that is put together appears whole or not at all.
@Suite(.timeLimit(.minutes(5))) struct StagedStoreTests {
  private func cut(_ storage: any Storage) async throws -> (LogCut, Store) {
    let store = try Store(on: storage, at: "store", configuration: .testing(segmentSizeBytes: 4000))
    for number in 0..<200 { try await store.set([1, 2, 3], forKey: Key("\(number)")) }
    return (try #require(try await store.logCut()), store)
  }

  @Test func storeAppearsOnlyWithEveryByteAndItsDigest() async throws {
    let storage = MemoryStorage()
    let (cut, store) = try await cut(storage)
    for damage in ["byte", "missing", "digest", "none"] {
      let path = FilePath(damage)
      let staged = try await StagedStore.begin(at: path, on: storage, cut.manifest)
      for (place, segment) in cut.segments.enumerated() {
        if damage == "missing", place == 1 { continue }
        var bytes = try segment.all()
        if damage == "byte", place == 1 { bytes[200] ^= 1 }
        try await staged.write(bytes, to: segment.identity.number, at: 0)
      }
      var manifest = cut.manifest
      if damage == "digest" { manifest.digest.low ^= 1 }
      if damage == "none" {
        #expect(try await staged.finish(manifest).count == 200)
      } else {
        let error = await #expect(throws: StoreError.self) { try await staged.finish(manifest) }
        #expect(error?.code == .corrupted, "\(damage)")
        let left = try storage.openDirectory(path)?.entries().map(\.name) ?? []
        #expect(!left.contains { $0 == "MANIFEST" || $0.hasSuffix(".segment") }, "\(damage)")
      }
    }
    let restored = try Store(on: storage, at: "none", configuration: .testing())
    #expect(try await restored.everything() == store.everything())
    try await restored.close()
    try await store.close()
  }

  @Test func directoryWithAStoreIsLeftAlone() async throws {
    let storage = MemoryStorage()
    let (cut, store) = try await cut(storage)
    try await store.close()
    let error = await #expect(throws: StoreError.self) {
      try await StagedStore.begin(at: "store", on: storage, cut.manifest)
    }
    #expect(error?.code == .notAStore)
    let again = try Store(on: storage, at: "store", configuration: .testing())
    #expect(try await again.count() == 200)
    try await again.close()
  }

  @Test func waitThatBeginsWithinARoundGetsTheErrorOfTheNextOne() async throws {
    let store = Store.inMemory()
    let owner = ReplicationOwner()
    let wakes = CallCounter()
    func fail(_ message: String, isLast: Bool = false) {
      store.replicationFailed(owner, StoreError(.archiveUnavailable, message), isLast: isLast)
    }
    store.beginReplication(owner) { _ = wakes.next() }
    store.replicationBegins(owner)
    let first = Task { try await store.waitUntilReplicated(SequenceNumber(rawValue: 1)) }
    while wakes.value < 1 { await Task.yield() }
    fail("the first round")
    store.replicationBegins(owner)
    fail("the second round")
    var error = await #expect(throws: StoreError.self) { try await first.value }
    #expect(error?.message == "the second round")
    let second = Task { try await store.waitUntilReplicated(SequenceNumber(rawValue: 1)) }
    while wakes.value < 2 { await Task.yield() }
    fail("the end", isLast: true)
    error = await #expect(throws: StoreError.self) { try await second.value }
    #expect(error?.message == "the end")
    try await store.close()
  }
}
