import MoraineStorage

/// Buckets in chunks that never move, so that growth copies nothing.
struct BucketArray: ~Copyable {
  static let chunkShift = 15
  static let chunkBuckets = 1 << chunkShift

  private(set) var count = 0
  private var chunks: UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>
  private var chunkCount = 0
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
    while chunkCount * Self.chunkBuckets < newCount {
      // The first chunk is all that a small store has: it grows by small pages.
      let chunk = ZeroedMemory(
        byteCount: Self.chunkBuckets * HashIndex.bucketBytes, isHuge: chunkCount > 0)
      memory.append(chunk)
      add(chunk.base)
    }
    count = newCount
  }

  /// Where the chunk begins that so many buckets do not fill.
  static func firstOfLastChunk(_ count: Int) -> Int { count / chunkBuckets * chunkBuckets }

  /// Takes over buckets that lie in memory that somebody else keeps alive: whole chunks as they are,
  /// the rest copied.
  mutating func adopt(_ base: UnsafeMutableRawPointer, count newCount: Int) {
    precondition(chunkCount == 0, "buckets are there already")
    let rest = Self.firstOfLastChunk(newCount)
    for first in stride(from: 0, to: rest, by: Self.chunkBuckets) {
      add(base + first * HashIndex.bucketBytes)
    }
    grow(to: newCount)
    guard newCount > rest else { return }
    UnsafeMutableRawPointer(self[rest]).copyMemory(
      from: base + rest * HashIndex.bucketBytes,
      byteCount: (newCount - rest) * HashIndex.bucketBytes)
  }

  private mutating func add(_ chunk: UnsafeMutableRawPointer) {
    if chunkCount == capacity { enlargeDirectory() }
    chunks[chunkCount] = chunk.assumingMemoryBound(to: UInt64.self)
    chunkCount += 1
  }

  private mutating func enlargeDirectory() {
    let larger = UnsafeMutablePointer<UnsafeMutablePointer<UInt64>>.allocate(capacity: capacity * 2)
    larger.update(from: chunks, count: capacity)
    chunks.deallocate()
    chunks = larger
    capacity *= 2
  }
}
