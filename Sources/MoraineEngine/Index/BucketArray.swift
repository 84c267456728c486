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
  /// Whose first chunks lie in a checkpoint that was mapped: new buckets there may hold anything.
  private var adoptedCount = 0

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
    let adopted = adoptedCount * Self.chunkBuckets
    if count < adopted {
      for number in count..<min(newCount, adopted) {
        self[number].update(repeating: 0, count: HashIndex.slotsPerBucket)
      }
    }
    count = newCount
  }

  /// Takes buckets over that lie in memory already, in whole chunks, and that somebody else keeps
  /// alive.
  mutating func adopt(_ base: UnsafeMutableRawPointer, count newCount: Int) {
    precondition(chunkCount == 0, "buckets are there already")
    let chunkBytes = Self.chunkBuckets * HashIndex.bucketBytes
    for chunk in 0..<(newCount + Self.chunkBuckets - 1) / Self.chunkBuckets {
      add(base + chunk * chunkBytes)
    }
    adoptedCount = chunkCount
    count = newCount
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
