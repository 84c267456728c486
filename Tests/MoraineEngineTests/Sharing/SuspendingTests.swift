import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// A store that gives up its locks, and one that is first shared when there is no space.
@Suite(.timeLimit(.minutes(10))) struct SuspendingTests {
  /// The limit would have it take years.
  @Test(arguments: [Configuration.Sharing.exclusive, .shared])
  func suspendingEndsACompaction(sharing: Configuration.Sharing) async throws {
    var configuration = Configuration.testing(segmentSizeBytes: 2000)
    configuration.sharing = sharing
    configuration.compaction = .manual
    configuration.compaction.rateLimitBytesPerSecond = 1
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<500 {
      try await store.set([UInt8](repeating: 1, count: 40), forKey: Key("\(number % 50)"))
    }
    let compacting = Task { try await store.compact() }
    while await !store.isCompacting { await Task.yield() }
    try await store.suspend()
    let error = await #expect(throws: StoreError.self) { try await compacting.value }
    #expect(error?.code == .suspended)
    try await store.resume()
    #expect(await store.count == 50)
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  @Test func aFullDiskKeepsNobodyFromSharing() async throws {
    let disk = MemoryStorage(capacityBytes: 1 << 20)
    let alone = try Store(on: disk, at: "store", configuration: .testing())
    try await alone.set([1], forKey: "a")
    let directory = try #require(try disk.openDirectory("store"))
    let filler = try directory.createFile("filler")
    var length: UInt64 = 0
    func fill() throws {
      while try directory.freeBytes() > 0 {
        try filler.allocate(from: length, to: length + 1)
        length += 4096
      }
    }
    try fill()
    // As after a kill: what is kept back for a full disk is still there.
    withExtendedLifetime(alone) {}
    let copy = MemoryStorage(capacityBytes: 1 << 20)
    try copyFiles(from: directory, to: copy)
    let shared = try Store(on: copy, at: "store", configuration: .shared())
    #expect(try await shared.value(forKey: "a") == [1])
    try await shared.removeValue(forKey: "a")
    try await shared.close()
    try await alone.close()
  }

  /// Not the lock: its holder was killed.
  private func copyFiles(
    from source: any StorageDirectory, to storage: MemoryStorage
  ) throws {
    try storage.createDirectory("store")
    let target = try #require(try storage.openDirectory("store"))
    for entry in try source.entries() {
      let file = try #require(try source.openFile(entry.name, .read))
      let copy = try target.createFile(entry.name)
      var bytes = [UInt8](repeating: 0, count: Int(entry.lengthBytes))
      let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
      try bytes[..<count].withUnsafeBytes { try copy.write($0, at: 0) }
    }
  }
}
