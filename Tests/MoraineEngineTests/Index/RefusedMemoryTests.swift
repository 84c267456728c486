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

  /// Regression: a snapshot that ended on another thread returned memory that a change was about to
  /// use, where the pages taken ahead lay in a slab beside pages in use.
  @Test func pagesTakenAheadStayWhenOtherPagesAreFreed() throws {
    var copies = PageCopies()
    let used = (0..<65).map { _ in copies.take() }
    // The 63 pages beside the last one, and another slab.
    try copies.secure(127)
    #expect(copies.slabCount == 3)
    copies.free(used[64])
    let freeCount = copies.slabCount * 64 - copies.count
    #expect(freeCount >= 127)
    let more = (0..<127).map { _ in copies.take() }
    #expect(copies.slabCount == 3, "all copies lie in the reserved memory")
    for page in used[..<64] { copies.free(page) }
    for page in more { copies.free(page) }
    #expect(copies.count == 0)
    #expect(copies.slabCount == 1, "pages that were used are not kept")
    copies.deallocate()
  }

  /// Regression: the removals of a keyspace that was ordered took the pages of a compaction.
  @Test func removalsTakeNoPageOfACompaction() throws {
    var index = try HashIndex()
    index.insert(0..<60_000)
    let snapshot = index.freeze()
    try index.beginMoves(60_000)
    let reserved = index.reservedPages
    #expect(reserved > 64)
    try index.secureRemovals(20_000)
    for number in 0..<20_000 { index.remove(number) }
    let (pages, slabs) = index.memory.copyCounts
    #expect(pages > 64, "the removals copied pages")
    #expect(slabs * 64 - pages >= reserved)
    #expect(snapshot.count == 60_000)
  }

  /// Regression: moves that could not begin in the hash index counted as under way in the trees.
  @Test func movesThatCannotBeginAreNotUnderWay() throws {
    var live = try LiveIndex()
    let memory = IndexMemory(slabs: { () throws(StorageError) -> ZeroedMemory in
      throw StorageError("take memory for", file: "test", errno: .noMemory)
    })
    live.index = try HashIndex(memory)
    live.index.insert(0..<100)
    let snapshot = live.index.freeze()
    var code: StoreError.Code?
    do throws(StoreError) { try live.beginMoves(10) } catch { code = error.code }
    #expect(code == .limitExceeded)
    let inTrees = live.trees.movesUnderWay
    #expect(inTrees == 0)
    #expect(snapshot.count == 100)
  }

  /// Each snapshot that is taken while entries are moved may cause one more copy of each page.
  @Test func snapshotDuringMovesSecuresTheirCopies() throws {
    var index = try HashIndex()
    let hashes = NumberedHashes()
    for number in 0..<20_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    try index.beginMoves(20_000)
    #expect(index.memory.copyCounts.slabs == 0, "no snapshot has a page")
    let first = index.freeze()
    try index.secureMoves()
    for number in 0..<10_000 {
      let isMoved = index.move(
        NumberedHashes.address(number), to: NumberedHashes.address(number + 50_000),
        NumberedHashes.hash(number))
      #expect(isMoved, "\(number)")
    }
    let second = index.freeze()
    try index.secureMoves()
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
