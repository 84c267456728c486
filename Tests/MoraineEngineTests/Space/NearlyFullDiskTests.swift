import MoraineEngine
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A disk that reports more free space than it gives, as a disk with a quota does.
@Suite struct NearlyFullDiskTests {
  @Test(arguments: [Errno.noSpace, .diskQuotaExceeded])
  func segmentIsCreatedWithItsLeastSize(errno: Errno) async throws {
    let storage = FaultStorage(MemoryStorage())
    let isFirst = Mutex(true)
    let name = "0000000001.segment"
    storage.setScript { event in
      guard event.operation == .allocate, event.file == name else { return nil }
      // A part of the allocation was taken before the refusal; it must be released.
      return isFirst.withLock { isFirst in
        defer { isFirst = false }
        return isFirst ? .partial(lengthBytes: 8192, errno) : nil
      }
    }
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    let born = storage.trace.filter { $0.file == name }.map(\.operation)
    #expect(
      born.starts(with: [.remove, .createFile, .allocate, .truncate, .allocate, .map, .write]),
      "\(born)")
    let directory = try #require(try storage.openDirectory("store"))
    #expect(try directory.openFile(name, .read)?.lengthBytes() == 4096)
    #expect(try await store.value(forKey: "a") == [1])
    // The segments grow again when the disk has space again.
    for number in 0..<100 { try await store.set([UInt8](0..<200), forKey: Key("\(number)")) }
    #expect(try await store.statistics().segmentCount == 1)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: .testing())
    #expect(try await again.count() == 101)
    try await again.close()
  }

  /// The allocation is too small even for the first record.
  @Test func putIsRefusedWithoutSpaceForTheLeastSegment() async throws {
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { event in
      event.operation == .allocate && event.file.hasSuffix(".segment") ? .fail(.noSpace) : nil
    }
    let store = try Store(on: storage, at: "store", configuration: .testing())
    let error = await #expect(throws: StoreError.self) { try await store.set([1], forKey: "a") }
    #expect(error?.code == .noSpace)
    storage.setScript(nil)
    #expect(try await store.value(forKey: "a") == nil)
    try await store.set([2], forKey: "a")
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: .testing())
    #expect(try await again.value(forKey: "a") == [2])
    try await again.close()
  }
}
