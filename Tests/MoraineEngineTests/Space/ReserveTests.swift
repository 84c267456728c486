import MoraineStorage
import MoraineTesting
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

  @Test func failureOtherThanNoSpaceIsThrown() throws {
    let storage = FaultStorage(MemoryStorage())
    var reserve = try reserve(storage)
    storage.setScript { $0.operation == .allocate ? .fail(.ioError) : nil }
    let error = #expect(throws: StorageError.self) { try reserve.restore(1 << 20) }
    #expect(error?.errno == .ioError)
    #expect(reserve.lengthBytes == 0)
  }
}
