import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// The reserve: space that is kept for a full disk.
@Suite struct ReserveTests {
  private func reserve(_ storage: FaultStorage) throws -> Reserve {
    try storage.createDirectory("store")
    return Reserve(directory: try #require(try storage.openDirectory("store")))
  }

  /// The reserve is refilled as far as the free space permits.
  @Test func partOfTheReserveIsRestoredWithoutSpaceForAll() throws {
    let storage = FaultStorage(MemoryStorage())
    var reserve = try reserve(storage)
    storage.setScript { event in
      event.operation == .allocate && event.index < 8 ? .fail(.noSpace) : nil
    }
    storage.clearTrace()
    try reserve.restore(1 << 20)
    #expect(reserve.lengthBytes > 0 && reserve.lengthBytes < 1 << 19)
    #expect(!reserve.isFull)
  }

  /// Regression: on btrfs, releasing one half of the reserve freed no block, and a full disk
  /// refused each delete of a store without mappings.
  @Test func eachHalfOfTheReserveIsAllocatedByItself() throws {
    let half = Reserve.leastBytes / 2
    let result = try lengthsAtAllocations { try $0.keep(Reserve.leastBytes) }
    #expect(result.lengths == [0, UInt64(half)])
    var reserve = result.reserve
    try reserve.shrink(for: Reserve.leastBytes)
    #expect(reserve.lengthBytes == half)
  }

  /// Regression: on btrfs, a delete that reserved the half for a compaction kept the space of both
  /// halves.
  @Test func halfThatIsRestoredIsAllocatedByItself() throws {
    let half = Reserve.leastBytes / 2
    let result = try lengthsAtAllocations { try $0.restore(Reserve.leastBytes, leavesHalf: true) }
    #expect(result.lengths == [0, UInt64(half)])
    #expect(result.reserve.lengthBytes == half)
  }

  /// Returns the length that the file had before each allocation: the place where each begins, if
  /// each continues the one before.
  private func lengthsAtAllocations(
    in body: (inout Reserve) throws -> Void
  ) throws -> (lengths: [UInt64], reserve: Reserve) {
    let memory = MemoryStorage()
    let storage = FaultStorage(memory)
    var reserve = try reserve(storage)
    let directory = try #require(try memory.openDirectory("store"))
    let lengths = Mutex<[UInt64]>([])
    storage.setScript { event in
      guard event.operation == .allocate, event.file == "RESERVE" else { return nil }
      do {
        // On the storage below the faults: a script must not call the storage above.
        let length = try directory.openFile(event.file, .read)?.lengthBytes()
        lengths.withLock { $0.append(length ?? 0) }
      } catch {
        Issue.record(error)
      }
      return nil
    }
    try body(&reserve)
    return (lengths.withLock { $0 }, reserve)
  }

  @Test func failureOtherThanNoSpaceIsThrown() throws {
    let storage = FaultStorage(MemoryStorage())
    var reserve = try reserve(storage)
    storage.setScript { $0.operation == .allocate ? .fail(.ioError) : nil }
    let error = #expect(throws: StorageError.self) { try reserve.restore(1 << 20) }
    #expect(error?.errno == .ioError)
    #expect(reserve.lengthBytes == 0)
  }
}
