import MoraineFormat
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

  /// Regression: an index that was loaded with the memory taken ahead ended the program when it
  /// grew, and the system refused memory.
  @Test func changeOfAnIndexThatWasLoadedWithTheLastMemoryIsATypedError() throws {
    var original = try HashIndex()
    original.insert(0..<20_000)
    let checkpoint = try original.checkpointPages()
    let pages = try #require(checkpoint)
    #expect(pages.header.overflowCount > 0)
    let chunks = Chunks(IndexMemory.chunksPerInsertion)
    guard var index = try HashIndex(pages, memory: chunks.memory) else {
      Issue.record("the checkpoint was refused")
      return
    }
    #expect(index.isShort == true, "both chunks have the ends of the checkpoint")
    var code: StoreError.Code?
    do throws(StoreError) { try index.secureChange() } catch { code = error.code }
    #expect(code == .limitExceeded)
    chunks.left.withLock { $0 = 10 }
    try index.secureChange()
    #expect(index.isShort == false)
    let isValid = index.validateAllPages()
    #expect(isValid)
    index.insert(20_000..<20_010)
    #expect(index.count == 20_010)
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

  @Test func copiesUseTheMemoryThatWasPreparedForThem() throws {
    var index = try HashIndex()
    let hashes = NumberedHashes()
    for number in 0..<60_000 {
      index.insert(NumberedHashes.hash(number), NumberedHashes.address(number), rehashing: hashes)
    }
    index.memory.prepareCopies(150)
    #expect(index.memory.copyCounts.slabs == 2, "only whole slabs are prepared")
    let snapshot = index.freeze()
    try index.secure(insertions: 1)
    var number = 0
    while index.memory.copyCounts.pages < 100 {
      index.makeUnique(NumberedHashes.hash(number))
      number += 1
    }
    #expect(index.memory.copyCounts.slabs == 2, "all copies lie in the prepared memory")
    #expect(snapshot.count == 60_000)
    _ = consume snapshot
    while index.tend(pages: 64) {}
    #expect(index.memory.copyCounts.pages == 0)
    #expect(index.memory.copyCounts.slabs <= 1, "the memory was returned")
  }

  @Test func preparationWithoutMemoryIsNoError() {
    let memory = IndexMemory(slabs: { () throws(StorageError) in
      throw StorageError("take memory for", file: "test", errno: .noMemory)
    })
    memory.prepareCopies(1000)
    #expect(memory.copyCounts.slabs == 0)
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

  /// Regression: the list of slabs with free pages kept every slab that had been returned.
  @Test func slabsThatWereReturnedAreNotListed() throws {
    var copies = PageCopies()
    for _ in 0..<1000 {
      try copies.secure(323)
      let pages = (0..<15).map { _ in copies.take() }
      for page in pages { copies.free(page) }
      copies.returnEmptySlabs()
    }
    #expect(copies.candidateCount <= copies.slabCount)
    copies.deallocate()
  }

  /// Regression: a slab was listed again whenever its last free page was taken and freed.
  @Test func slabWithFreePagesIsListedOnce() {
    var copies = PageCopies()
    let used = (0..<63).map { _ in copies.take() }
    for _ in 0..<1000 {
      let page = copies.take()
      copies.free(page)
    }
    #expect(copies.candidateCount == 1)
    for page in used { copies.free(page) }
    copies.deallocate()
  }

  /// Makes a store with a hashed keyspace "k", whose order needs more memory than the system
  /// provides, and tries to order it.
  private static func refuseOrder(
    _ storage: MemoryStorage, _ chunks: Chunks
  ) async throws -> (store: Store, keyCount: Int) {
    let store = try Store(on: storage, at: "store", configuration: .hashed())
    let keyspace = try store.keyspace(named: "k")
    for number in 0..<3000 { try await keyspace.set([1], forKey: Key("\(number)")) }
    await store.useSmallNodes(of: chunks.memory)
    let error = await #expect(throws: StoreError.self) {
      try await store.orderedKeyspace(named: "k").count(in: .all)
    }
    #expect(error?.code == .limitExceeded)
    #expect(chunks.left.withLock { $0 } < 0, "the tree needs more chunks than there are")
    return (store, 3000)
  }

  /// Regression: a store whose keyspace could not be ordered for lack of memory stopped writing,
  /// because its manifest said already that the keyspace was ordered.
  @Test func keyspaceThatCouldNotBeOrderedStaysHashed() async throws {
    let storage = MemoryStorage()
    let (store, count) = try await Self.refuseOrder(storage, Chunks(2))
    try await store.keyspace(named: "other").set([2], forKey: "a")
    // No tree can hold this key: an opening that found the keyspace ordered would fail.
    let long = Key([UInt8](repeating: 1, count: 600))
    try await store.keyspace(named: "k").set([3], forKey: long)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: .hashed())
    #expect(try await again.keyspace(named: "k").value(forKey: long) == [3])
    #expect(try await again.keyspace(named: "k").count() == count + 1)
    #expect(try await again.keyspace(named: "other").value(forKey: "a") == [2])
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  /// Regression: the same, where memory is provided later.
  @Test func keyspaceIsOrderedWhenMemoryIsProvidedAgain() async throws {
    let (storage, chunks) = (MemoryStorage(), Chunks(2))
    let (store, count) = try await Self.refuseOrder(storage, chunks)
    try await store.keyspace(named: "k").set([2], forKey: "0")
    chunks.left.withLock { $0 = 1000 }
    let keyspace = try store.orderedKeyspace(named: "k")
    #expect(try await keyspace.count(in: .all) == count)
    #expect(try await keyspace.first()?.value == [2])
    #expect(try await store.verify().isSound)
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: .hashed())
    #expect(try await again.keyspace(named: "k").count(in: .all) == count)
    #expect(try await again.keyspace(named: "k").first()?.value == [2])
    try await again.close()
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

extension Store {
  /// Gives the trees, which are empty, other memory, and nodes that few keys fill.
  fileprivate func useSmallNodes(of memory: IndexMemory) {
    let ordered = engine!.live.trees.ordered
    engine!.live.trees = TreeIndex(ordered: ordered, memory, leafLimit: 4, branchLimit: 4)
  }
}
