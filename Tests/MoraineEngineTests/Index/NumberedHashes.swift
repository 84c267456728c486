import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Keys of an index that is tested without a store: each key is a number. The source knows the hash
/// of every address, and counts its calls.
final class NumberedHashes: RehashSource {
  var isReadable = true
  private(set) var count = 0

  static func hash(_ number: Int) -> UInt64 {
    var x = UInt64(number) &* 0x9E37_79B9_7F4A_7C15
    x = (x ^ (x >> 30)) &* 0xBF58_476D_1CE4_E5B9
    return x ^ (x >> 31)
  }

  static func address(_ number: Int, slot: Int = 3) -> Address {
    Address(slot: slot, offset: number * 4)
  }

  func hashOfRecord(at address: Address) throws(StoreError) -> UInt64 {
    count += 1
    guard isReadable else { throw StoreError(.io, "a read failed") }
    return Self.hash(address.offset / 4)
  }
}

extension HashIndex {
  mutating func insert(_ numbers: Range<Int>, _ hashes: NumberedHashes = NumberedHashes()) {
    for number in numbers {
      insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
  }

  /// - Returns: whether the index held the number.
  @discardableResult
  mutating func remove(_ number: Int, slot: Int = 3) -> Bool {
    let hash = NumberedHashes.hash(number)
    makeUnique(hash)
    var candidates = candidates(hash)
    while let entry = next(&candidates) {
      guard entry.address == NumberedHashes.address(number, slot: slot) else { continue }
      remove(entry)
      return true
    }
    return false
  }

  /// Returns the pages of a checkpoint of the index, written to a file and opened again; nil when
  /// they are refused.
  mutating func checkpointPages() throws -> CheckpointPages? {
    let storage = MemoryStorage()
    try storage.createDirectory("store")
    let directory = try #require(try storage.openDirectory("store"))
    var header = CheckpointHeader.covering()
    header.keyspaces = nil
    var trees = TreeIndex()
    let image = CheckpointImage(header, of: &self, &trees)
    try image.write(to: try directory.createFile("checkpoint"))
    return try CheckpointFile.open("checkpoint", directory, mapped: true, logBytes: 1 << 40)
  }
}

extension KeyIndex where Self: ~Copyable {
  func holds(_ number: Int, slot: Int = 3) -> Bool {
    holds(NumberedHashes.address(number, slot: slot), NumberedHashes.hash(number))
  }
}

extension CheckpointHeader {
  /// Returns a header that covers a segment in each of the first slots, for an index that is tested
  /// without a store.
  static func covering(upTo end: UInt64 = 1 << 30) -> CheckpointHeader {
    var header = CheckpointHeader(storeID: StoreIdentifier(low: 1, high: 2))
    header.segments = (0..<16).map { slot in
      var segment = Segment(number: SegmentNumber(rawValue: UInt64(slot) + 1))
      segment.slot = UInt32(slot)
      segment.endOffset = end
      return segment
    }
    return header
  }
}
