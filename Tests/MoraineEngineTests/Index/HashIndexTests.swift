import MoraineStorage
import MoraineTesting
import Testing

@testable import MoraineEngine

/// The index without a store: sizes that a store reaches only with millions of keys.
@Suite struct HashIndexTests {
  @Test func allEightTagsAreComparedAtOnce() {
    var generator = SeededGenerator(seed: 11)
    let bucket = UnsafeMutablePointer<UInt64>.allocate(capacity: 8)
    defer { bucket.deallocate() }
    for _ in 0..<20_000 {
      let tags = [0, 1, 0x7FFF, 0x8000, 0xFFFF, 0xFF00, 0x00FF] as [UInt16]
      for slot in 0..<8 {
        let tag = tags[Int(generator.next() % UInt64(tags.count))]
        bucket[slot] = UInt64(tag) << 48 | generator.next() >> 16
      }
      let tag = tags[Int(generator.next() % UInt64(tags.count))]
      let slow = (0..<8).reduce(UInt64(0)) { mask, slot in
        bucket[slot] >> 48 == tag ? mask | 1 << UInt64(8 * slot) : mask
      }
      #expect(CPU.slots(in: bucket, tagged: tag) == slow)
    }
  }

  /// Returns an index one round of splits away from new tags, as an index of 2^20 buckets is.
  private func index() throws -> HashIndex {
    var index = try HashIndex()
    index.tagShift = index.level - HashIndex.levelsPerTag
    return index
  }

  private func expectAll(_ index: borrowing HashIndex, _ numbers: Range<Int>) {
    #expect(index.count == numbers.count)
    for number in numbers {
      let isThere = index.holds(NumberedHashes.address(number), NumberedHashes.hash(number))
      #expect(isThere, "\(number)")
      let other = index.holds(
        NumberedHashes.address(number), NumberedHashes.hash(number) ^ 1 << 40 ^ 1 << 5)
      #expect(!other, "\(number)")
    }
  }

  @Test func newTagsComeFromTheRecords() throws {
    var index = try index()
    let hashes = NumberedHashes()
    for number in 0..<20_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    #expect(index.level > HashIndex.initialLevel)
    #expect(index.tagShift == HashIndex.initialLevel)
    #expect(hashes.count > 5000, "each entry of the first round was compared")
    expectAll(index, 0..<20_000)
  }

  @Test func unreadableKeyPostponesTheSplit() throws {
    var index = try index()
    let hashes = NumberedHashes()
    hashes.isReadable = false
    for number in 0..<8000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    #expect(index.buckets.count == 1 << HashIndex.initialLevel)
    expectAll(index, 0..<8000)
    hashes.isReadable = true
    for number in 8000..<20_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    #expect(index.tagShift == HashIndex.initialLevel)
    expectAll(index, 0..<20_000)
  }

  /// Splits, overflow buckets, new chunks and new tags do not affect the frozen index.
  @Test func frozenIndexDoesNotChangeWhileTheIndexGrows() throws {
    var index = try index()
    let hashes = NumberedHashes()
    func fill(_ numbers: Range<Int>) {
      for number in numbers {
        index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
      }
    }
    fill(0..<3_000)
    let small = index.freeze()
    fill(3_000..<150_000)
    let large = index.freeze()
    fill(150_000..<400_000)
    #expect(index.buckets.count > BucketArray.chunkBuckets)
    #expect(small.count == 3_000 && large.count == 150_000)
    func holds(_ index: borrowing FrozenIndex, _ number: Int) -> Bool {
      index.holds(NumberedHashes.address(number), NumberedHashes.hash(number))
    }
    for number in 0..<400_000 {
      #expect(holds(small, number) == (number < 3_000), "\(number)")
      #expect(holds(large, number) == (number < 150_000), "\(number)")
    }
    expectAll(index, 0..<400_000)
  }

  /// More chunks than the first directory of chunks has space for: from 3 million keys on.
  @Test func chunksDoNotMoveWhenTheirDirectoryGrows() {
    var buckets = BucketArray(IndexMemory())
    let count = 40
    var places: [UnsafeMutablePointer<UInt64>] = []
    for chunk in 0..<count {
      buckets.grow(to: chunk * BucketArray.chunkBuckets + 1)
      places.append(buckets[chunk * BucketArray.chunkBuckets])
      buckets[chunk * BucketArray.chunkBuckets][0] = UInt64(chunk) + 1
    }
    for chunk in 0..<count {
      #expect(buckets[chunk * BucketArray.chunkBuckets] == places[chunk])
      #expect(places[chunk][0] == UInt64(chunk) + 1)
    }
  }
}
