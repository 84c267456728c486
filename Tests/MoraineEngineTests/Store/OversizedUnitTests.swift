import Foundation
import MoraineEngine
import Testing

/// A unit larger than a segment gets a segment of its own, and no other record is appended to that
/// segment: an address reaches only as far as the greatest size of a segment.
@Suite struct OversizedUnitTests {
  private static let segmentSizeBytes = 1000

  /// Regression: a batch of one record asked for space for its uncompressed value, and used less
  /// once the value was compressed. Other records filled the rest, also past the first gibibyte,
  /// where no address reaches.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func largeRecordIsTheLastOfItsSegment(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(
      at: directory.path,
      configuration: .testing(segmentSizeBytes: Self.segmentSizeBytes, ioMode: mode))
    try await store.write { batch in
      try batch.set([UInt8](repeating: 0, count: 1 << 20), forKey: "large")
    }
    for number in 0..<100 { try await store.set([UInt8](0..<50), forKey: Key("\(number)")) }
    try await store.close()
    let lengths = try directory.segments().map { try Data(contentsOf: $0).count }
    let long = lengths.filter { $0 > Self.segmentSizeBytes }
    #expect(long.count == 1)
    #expect(long[0] < 6000, "1 MiB of zeros compresses to 4 KiB")
  }

  @Test func aBatchThatAddressesCouldNotReachIsRefusedBeforeAnythingIsWritten() async throws {
    let store = Store.inMemory()
    let value = [UInt8](repeating: 0, count: 1 << 20)
    let error = await #expect(throws: StoreError.self) {
      try await store.write { batch in
        for number in 0..<1023 { try batch.set(value, forKey: Key("\(number)")) }
      }
    }
    #expect(error?.code == .valueTooLarge)
    #expect(try await store.lastSequence() == .none)
    #expect(try await store.count() == 0)
    try await store.close()
  }
}
