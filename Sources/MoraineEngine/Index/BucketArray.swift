import MoraineStorage

/// Buckets in chunks that never move, so that growth copies nothing.
struct BucketArray: ~Copyable {
  static let chunkShift = 15
  static let chunkBuckets = 1 << chunkShift

  private(set) var count = 0
  private var chunks: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>
  private var memory: [ZeroedMemory] = []
  private var capacity = 16

  init() {
    chunks = .allocate(capacity: capacity)
  }

  deinit {
    for chunk in memory { chunk.deallocate() }
    chunks.deallocate()
  }

  @inline(__always)
  subscript(_ number: Int) -> UnsafeMutablePointer<UInt64> {
    chunks[number &>> Self.chunkShift]
      + (number & (Self.chunkBuckets &- 1)) &* HashIndex.slotsPerBucket
  }

  mutating func grow(to newCount: Int) {
    while memory.count * Self.chunkBuckets < newCount {
      // The first chunk is all that a small store has: it grows by small pages.
      let chunk = ZeroedMemory(
        byteCount: Self.chunkBuckets * HashIndex.bucketBytes, isHuge: !memory.isEmpty)
      if memory.count == capacity { enlargeDirectory() }
      chunks[memory.count] = chunk.base.assumingMemoryBound(to: UInt64.self)
      memory.append(chunk)
    }
    count = newCount
  }

  private mutating func enlargeDirectory() {
    let larger = UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>.allocate(capacity: capacity * 2)
    larger.update(from: chunks, count: capacity)
    chunks.deallocate()
    chunks = larger
    capacity *= 2
  }
}
