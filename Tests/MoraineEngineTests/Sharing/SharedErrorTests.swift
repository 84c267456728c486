import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Errors of a shared store when another program, a damaged file or a dead process is in its way.
@Suite(.timeLimit(.minutes(10))) struct SharedErrorTests {
  private let memory = MemoryStorage()

  private func open(on storage: (any Storage)? = nil, readOnly: Bool = false) throws -> Store {
    var configuration = Store.Configuration.shared()
    configuration.compaction = .manual
    configuration.isReadOnly = readOnly
    return try Store(on: storage ?? memory, at: "store", configuration: configuration)
  }

  private func directory() throws -> any StorageDirectory {
    try #require(try memory.openDirectory("store"))
  }

  /// Opens a file as a program does that is no part of the store.
  private func file(_ name: String) throws -> any StorageFile {
    try #require(try directory().openFile(name, .readWrite))
  }

  private func replaceManifest(_ bytes: [UInt8]) throws {
    let file = try file(Manifest.fileName)
    try file.truncate(to: 0)
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
  }

  private func manifestBytes(in path: FilePath = "store") throws -> [UInt8] {
    let directory = try #require(try memory.openDirectory(path))
    let file = try #require(try directory.openFile(Manifest.fileName, .read))
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    return bytes
  }

  /// Returns a writer, and a reader that has seen the writer's record.
  private func pair() async throws -> (writer: Store, reader: Store) {
    let writer = try open()
    try await writer.set([1], forKey: "a", durability: .sync)
    let reader = try open()
    #expect(try await reader.value(forKey: "a") == [1])
    return (writer, reader)
  }

  private func expect(
    _ code: StoreError.Code, saying words: String, _ body: () async throws -> Void
  ) async {
    let error = await #expect(throws: StoreError.self) { try await body() }
    #expect(error?.code == code)
    #expect(error?.message.contains(words) == true, "\(String(describing: error))")
  }

  @Test func sharedPageLockedByAnotherProgramIsAnError() async throws {
    let store = try open()
    try await store.set([1], forKey: "a")
    try await store.close()
    let page = try file(FileName.sharedPage)
    #expect(try page.tryLock(shared: false))
    await expect(.locked, saying: "does not use the store") { _ = try open() }
    page.unlock()
    try await open().close()
  }

  @Test func writerLockHeldByAnotherProgramIsAnError() async throws {
    let late = try open()
    let writer = try open()
    try await writer.set([1], forKey: "a")
    let lock = try file(FileName.writerLock)
    #expect(try lock.tryLock(shared: false))
    // This store has not opened the files yet, and a read waits only for a moment.
    await expect(.locked, saying: "has been writing for") { _ = try await late.value(forKey: "a") }
    lock.unlock()
    #expect(try await late.value(forKey: "a") == [1])
    for store in [late, writer] { try await store.close() }
  }

  @Test func missingManifestIsAnError() async throws {
    let (writer, reader) = try await pair()
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "a")
    let bytes = try manifestBytes()
    try directory().remove(Manifest.fileName)
    await expect(.corrupted, saying: "manifest of segments") {
      _ = try await reader.value(forKey: "a")
    }
    let file = try directory().createFile(Manifest.fileName)
    try bytes.withUnsafeBytes { try file.write($0, at: 0) }
    #expect(try await reader.value(forKey: "a") == [2])
    for store in [reader, writer] { try await store.close() }
  }

  @Test func missingStoreIsAnError() async throws {
    let (writer, reader) = try await pair()
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "a")
    let directory = try directory()
    for entry in try directory.entries() where entry.name != FileName.sharedPage {
      try directory.remove(entry.name)
    }
    await expect(.corrupted, saying: "was removed while") {
      _ = try await reader.value(forKey: "a")
    }
    withExtendedLifetime((writer, reader)) {}
  }

  /// The published manifest is missing; a reader that continued with the old one would return old
  /// values.
  @Test func oldManifestIsAnError() async throws {
    let (writer, reader) = try await pair()
    let old = try manifestBytes()
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "a")
    let new = try manifestBytes()
    try replaceManifest(old)
    await expect(.corrupted, saying: "older than the published one") {
      _ = try await reader.value(forKey: "a")
    }
    try replaceManifest(new)
    #expect(try await reader.value(forKey: "a") == [2])
    for store in [reader, writer] { try await store.close() }
  }

  @Test func manifestOfAnotherStoreIsAnError() async throws {
    let (writer, reader) = try await pair()
    let other = try Store(on: memory, at: "other", configuration: .testing())
    for number in 0..<5 {
      try await other.set([9], forKey: Key("\(number)"))
      try await other.sealForCompaction()
    }
    try await writer.sealForCompaction()
    try await writer.set([2], forKey: "a")
    let right = try manifestBytes()
    try replaceManifest(try manifestBytes(in: "other"))
    let error = await #expect(throws: StoreError.self) { try await reader.value(forKey: "a") }
    #expect(error?.code == .corrupted)
    try replaceManifest(right)
    #expect(try await reader.value(forKey: "a") == [2])
    // The reader has seen the files of the other store in the place of its own.
    let closing = await #expect(throws: StoreError.self) { try await reader.close() }
    #expect(closing?.code == .storeReplaced)
    for store in [writer, other] { try await store.close() }
  }

  @Test func manifestWithWrongCountsIsAnError() async throws {
    let (writer, reader) = try await pair()
    try await writer.set([2], forKey: "b")
    try await writer.sealForCompaction()
    try await writer.set([3], forKey: "c")
    let right = try manifestBytes()
    var manifest = try right.withUnsafeBytes { try Manifest(decoding: $0) }
    manifest.segments[0].recordCount += 1
    try replaceManifest(manifest.encoded())
    let error = await #expect(throws: StoreError.self) { try await reader.value(forKey: "c") }
    #expect(error?.code == .corrupted)
    try replaceManifest(right)
    #expect(try await reader.value(forKey: "c") == [3])
    // The reader has seen a manifest of the same generation with other contents.
    let closing = await #expect(throws: StoreError.self) { try await reader.close() }
    #expect(closing?.code == .storeReplaced)
    try await writer.close()
  }

  @Test func publishedBytesMissingFromTheLogAreAnError() async throws {
    let (writer, reader) = try await pair()
    try await writer.publishMoreThanThereIs()
    await expect(.corrupted, saying: "another process has published these") {
      _ = try await reader.value(forKey: "a")
    }
    withExtendedLifetime((writer, reader)) {}
  }

  @Test func newPageDuringACompactionIsAnError() async throws {
    let (writer, reader) = try await pair()
    #expect(try await reader.takeCompactor())
    try await reader.beginRewriting()
    await writer.makePageAnew()
    await expect(.corrupted, saying: "had locked compaction") { try await reader.applyPeerWrites() }
    await reader.freeCompactor()
    try await reader.applyPeerWrites()
    #expect(try await reader.value(forKey: "a") == [1])
    for store in [reader, writer] { try await store.close() }
  }

  @Test func aCompactionIsCancelledWhileAnotherRuns() async throws {
    let (writer, reader) = try await pair()
    let lock = try file(FileName.compactorLock)
    #expect(try lock.tryLock(shared: false))
    let waiting = Task { _ = try await reader.compact() }
    waiting.cancel()
    await expect(.cancelled, saying: "cancelled") { try await waiting.value }
    lock.unlock()
    for store in [reader, writer] { try await store.close() }
  }
}

extension Store {
  fileprivate func publishMoreThanThereIs() throws(StoreError) {
    var snapshot = engine!.sharedSnapshot()
    snapshot.tailEnd += 24
    snapshot.lastSequence += 1
    engine!.log.link!.page.publish(snapshot)
  }

  fileprivate func makePageAnew() {
    let page = engine!.log.link!.page
    page.make(engine!.sharedSnapshot(), nextSegment: page.load(.nextSegment), nonce: 12345)
  }
}
