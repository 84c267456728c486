import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// The system refuses memory or further mappings: changes of the index fail before they begin.
@Suite(.timeLimit(.minutes(10))) struct RefusedMemoryTests {
  /// A system that provides a number of chunks, and more when the test permits it.
  private final class Chunks: Sendable {
    let left: Mutex<Int>

    init(_ count: Int) { left = Mutex(count) }

    var memory: IndexMemory {
      IndexMemory { (isHuge) throws(StorageError) in
        let isGiven = self.left.withLock { left in
          left -= 1
          return left >= 0
        }
        guard isGiven else { throw StorageError("take memory for", file: "test", errno: .noMemory) }
        return try ZeroedMemory(
          for: "test", byteCount: BucketArray.chunkBytes, isHuge: isHuge)
      }
    }
  }

  @Test func indexWithoutMemoryIsATypedError() {
    let error = #expect(throws: StoreError.self) { _ = try HashIndex(Chunks(0).memory) }
    #expect(error?.code == .limitExceeded)
    #expect(error?.errno == .noMemory)
  }

  /// Regression: an index that could not grow ended the program.
  @Test func insertionThatNeedsAChunkSucceedsAndTheNextInsertionFails() throws {
    let chunks = Chunks(4)
    var index = try HashIndex(chunks.memory)
    let hashes = NumberedHashes()
    var number = 0
    while !index.isShort, number < 2_000_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
      number += 1
    }
    #expect(number > 100_000 && number < 2_000_000, "\(number) keys")
    #expect(index.needsCare == true)
    var code: StoreError.Code?
    do throws(StoreError) { try index.secure(insertions: 1) } catch { code = error.code }
    #expect(code == .limitExceeded)
    #expect(index.isShort == true)
    for number in 0..<number {
      let isThere = index.holds(NumberedHashes.address(number), NumberedHashes.hash(number))
      #expect(isThere, "\(number)")
    }
    chunks.left.withLock { $0 = 10 }
    try index.secure(insertions: 1)
    #expect(index.isShort == false)
    index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    #expect(index.count == number + 1)
  }

  @Test func memoryIsSecuredForAsManyCopiesAsABatchMayNeed() throws {
    var index = try HashIndex()
    let hashes = NumberedHashes()
    for number in 0..<20_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    let snapshot = index.freeze()
    try index.secure(insertions: 5000)
    let slabs = index.memory.copyCounts.slabs
    for number in 20_000..<25_000 {
      index.makeUnique(NumberedHashes.hash(number))
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    #expect(index.memory.copyCounts.pages > 64)
    #expect(index.memory.copyCounts.slabs == slabs, "all copies lie in the reserved memory")
    #expect(snapshot.count == 20_000)
    _ = consume snapshot
    #expect(index.memory.copyCounts.slabs < slabs, "unused slabs are returned")
  }

  /// Each snapshot that is taken while entries are moved may cause one more copy of each page.
  @Test func snapshotDuringMovesSecuresTheirCopiesFirst() throws {
    var index = try HashIndex()
    let hashes = NumberedHashes()
    for number in 0..<20_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    try index.beginMoves(20_000)
    #expect(index.memory.copyCounts.slabs == 0, "no snapshot has a page")
    try index.prepareToFreeze()
    let first = index.freeze()
    for number in 0..<10_000 {
      let isMoved = index.move(
        NumberedHashes.address(number), to: NumberedHashes.address(number + 50_000),
        NumberedHashes.hash(number))
      #expect(isMoved, "\(number)")
    }
    try index.prepareToFreeze()
    let second = index.freeze()
    let slabs = index.memory.copyCounts.slabs
    for number in 10_000..<20_000 {
      _ = index.move(
        NumberedHashes.address(number), to: NumberedHashes.address(number + 50_000),
        NumberedHashes.hash(number))
    }
    #expect(index.memory.copyCounts.slabs == slabs, "all copies lie in the reserved memory")
    #expect(first.count == 20_000 && second.count == 20_000)
  }

  @Test func pagesThatACompactionReservesAreKeptFromOtherChanges() throws {
    var index = try HashIndex()
    let hashes = NumberedHashes()
    for number in 0..<20_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    let snapshot = index.freeze()
    try index.beginMoves(20_000)
    let reserved = index.reservedPages
    #expect(reserved > 0)
    for number in 20_000..<20_100 {
      try index.secure(insertions: 1)
      index.makeUnique(NumberedHashes.hash(number))
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
      let (pages, slabs) = index.memory.copyCounts
      #expect(slabs * 64 - pages >= reserved, "insertion \(number)")
    }
    #expect(snapshot.count == 20_000)
  }
}
