import MoraineStorage
import Synchronization

/// The memory of an index and of its snapshots.
///
/// Copy on write, by pages: a page that a snapshot has is never written again while the snapshot is
/// alive. The owner of the index takes a copy of the page first. When no snapshot has the original
/// page any more, the copy's bytes are copied back to it, and the copy's memory is returned:
/// originals lie together in huge pages, where a look-up costs less. (The idea is that of shadow
/// paging: Lorie, "Physical integrity in a large segmented database", TODS 1977; LMDB does it with
/// pages of a file.)
///
/// Safety: the owner of the index writes the contents of a page; the owner and snapshots read them.
/// A page has a *term*: it enters the index's table when `born` snapshots had been taken, and
/// leaves it when `retired` had been. Only the snapshots with numbers from `born + 1` to `retired`
/// can have the page in their tables. A page in a snapshot's table is in one of four states.
/// - The index's table has it too. Its term began before that snapshot was taken, so
///   ``replacement`` returns another page for each change, and no thread writes to it.
/// - It is a copy that another page has replaced. It is in `retired`. It is used again, or
///   unmapped, only when no snapshot within its term is alive.
/// - It is an original that a copy has replaced. It belongs only to its place in the index: its
///   next writer is ``replacement`` or ``copyBack``, which copy into it only when no snapshot
///   within its last term is alive. An earlier term ended the same way.
/// - It is an original of a chunk that has left the index's table, because the index became smaller
///   or moved its buckets to another chunk. The index never writes to the chunk again: a place that
///   comes back gets a page of a new chunk. The chunk is in `retiredChunks`. Its term begins when
///   the index takes it, so the terms of its pages lie within its own: it is unmapped only when no
///   snapshot within its term is alive.
///
/// The owner takes the snapshots, so no snapshot begins while the owner checks. Snapshots end on
/// any thread: ``release(_:)`` removes a number from `live` under the lock after the snapshot's
/// last read, and each of the writers above looks at `live` under the lock before its first write;
/// so the lock orders the read before the write. The same holds for unmapping: it comes after a
/// look at `live` under the lock that found no reader. `deinit` returns the remaining memory: the
/// index and every snapshot hold a reference.
final class IndexMemory: Sendable {
  /// Safety of `@unchecked Sendable`: the structure only says where a page is. The argument above
  /// says who may read and write there, and when.
  private struct Page: @unchecked Sendable {
    let base: UnsafeMutablePointer<UInt64>
  }

  private struct Retired {
    let page: Page
    let term: Term
  }

  /// The time in which a page was in the index's table, in numbers of snapshots.
  struct Term {
    /// Number of snapshots that had been taken when the page entered the table.
    var born: UInt64
    /// Number of snapshots that had been taken when the page left the table.
    var retired: UInt64

    /// Whether one of these snapshots has the page. Their numbers are in ascending order, and few.
    func isNeeded(by live: [UInt64]) -> Bool {
      live.contains { $0 > born && $0 <= retired }
    }
  }

  /// Memory by which an index grew.
  private enum Chunk {
    case own(ZeroedMemory)
    /// A part of the mapping that the memory keeps.
    case mapped(Page, byteCount: Int)
  }

  private struct RetiredChunk {
    let chunk: Chunk
    let term: Term
  }

  private struct OwnChunk {
    let memory: ZeroedMemory
    /// Number of snapshots that had been taken when the index took the chunk.
    let born: UInt64
  }

  private struct State {
    var chunks: [OwnChunk] = []
    /// Chunks that were taken ahead. No thread has touched them, so they are addresses and no
    /// memory.
    var spares: [ZeroedMemory] = []
    var mapping: (any FileMapping)?
    /// Number of bytes of the mapping that are in use.
    var mappedBytes = 0
    /// Chunks that left the index's table and that snapshots may have.
    var retiredChunks: [RetiredChunk] = []
    /// The numbers of the snapshots that are alive, ascending.
    var live: [UInt64] = []
    /// Copies that left the index's table and that snapshots have.
    var retired: [Retired] = []
    var copies: PageCopies

    /// Removes the chunks that no snapshot has any more. The caller returns their memory.
    mutating func takeFreeChunks() -> FreeChunks {
      if retiredChunks.isEmpty { return FreeChunks() }
      let free = FreeChunks(
        chunks: retiredChunks.filter { !$0.term.isNeeded(by: live) }.map(\.chunk),
        mapping: mapping)
      retiredChunks.removeAll { !$0.term.isNeeded(by: live) }
      for case .mapped(_, let byteCount) in free.chunks { mappedBytes -= byteCount }
      precondition(mappedBytes >= 0, "more bytes are returned than were mapped")
      if mappedBytes == 0 { mapping = nil }
      return free
    }
  }

  /// Chunks that no thread reads or writes any more.
  private struct FreeChunks {
    var chunks: [Chunk] = []
    /// The mapping that contains the mapped chunks. It is unmapped with the last of them.
    var mapping: (any FileMapping)?

    func returnMemory() {
      for chunk in chunks {
        switch chunk {
        case .own(let memory): memory.deallocate()
        case .mapped(let page, let byteCount): CPU.discard(page.base, byteCount: byteCount)
        }
      }
    }
  }

  /// A function that takes a chunk's memory from the system.
  typealias Source = @Sendable (_ isHuge: Bool) throws(StorageError) -> ZeroedMemory

  private let source: Source
  private let state: Mutex<State>
  /// The number of the youngest snapshot that is alive; 0 when there is none.
  private let youngest = Atomic<UInt64>(0)
  private let taken = Atomic<UInt64>(0)
  private let released = Atomic<UInt64>(0)
  private let forkGeneration = CurrentProcess.forkGeneration

  /// Whether this process made the memory. In a forked child, a thread of the parent may hold the
  /// lock for ever.
  private var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  /// - Parameters:
  ///   - source: the source of chunks; tests replace it.
  ///   - slabs: the source of the memory for copies; tests replace it.
  init(
    source: @escaping Source = IndexMemory.systemChunk,
    slabs: @escaping PageCopies.Source = PageCopies.systemSlab
  ) {
    self.source = source
    state = Mutex(State(copies: PageCopies(source: slabs)))
  }

  private static let systemChunk: Source = { (isHuge) throws(StorageError) in
    try ZeroedMemory(for: "the index", byteCount: BucketArray.chunkBytes, isHuge: isHuge)
  }

  deinit {
    guard isInItsProcess else { return }
    state.withLock { state in
      for chunk in state.chunks.map(\.memory) + state.spares { chunk.deallocate() }
      assert(state.retiredChunks.isEmpty, "a snapshot outlives the memory of its index")
      assert(state.live.isEmpty, "a snapshot was not released before its memory")
      assert(state.retired.isEmpty, "a copy is kept for a snapshot that has ended")
      state.copies.deallocate()
    }
  }

  /// Number of snapshots that were ever taken. Snapshots are numbered from 1.
  var snapshotCount: UInt64 { taken.load(ordering: .relaxed) }

  /// Number of snapshots that have ended. Relaxed: by this number the owner only decides whether a
  /// search for pages to copy back is worth the work; ``copyBack`` checks under the lock.
  var releaseCount: UInt64 { released.load(ordering: .relaxed) }

  /// Number of copies of pages, and of the slabs that contain them; for tests.
  var copyCounts: (pages: Int, slabs: Int) {
    state.withLock { ($0.copies.count, $0.copies.slabCount) }
  }

  /// Whether any snapshot is alive. When there is none, all reads of snapshots have ended.
  var isFrozen: Bool { youngest.load(ordering: .acquiring) != 0 }

  /// How many chunks one insertion may need: one for its bucket, one for overflow buckets.
  static let chunksPerInsertion = 2

  /// Takes ahead the memory that the next change of the index may need: a change that has begun
  /// cannot fail.
  ///
  /// - Parameters:
  ///   - chunks: how many chunks the change may need.
  ///   - pages: how many pages it may copy; none when no snapshot is alive.
  /// - Throws: `ENOMEM`.
  func secure(chunks: Int, pages: Int) throws(StorageError) {
    try state.withLock { (state) throws(StorageError) in
      while state.spares.count < chunks { state.spares.append(try source(false)) }
      // Where all snapshots have ended since, no page is copied before the owner takes another one.
      if pages > 0, !state.live.isEmpty { try state.copies.secure(pages) }
    }
  }

  /// Takes memory for copies of pages ahead, and makes it present: the page fault of a copy takes
  /// longer than the copy. A hint: where the system refuses, changes take the memory themselves.
  /// The end of the last snapshot returns what no copy has used.
  ///
  /// Any thread may call this function; it takes some milliseconds for ten megabytes.
  func prepareCopies(_ pageCount: Int) {
    let (source, free) = state.withLock { ($0.copies.source, $0.copies.freeCount) }
    for _ in 0..<max(0, pageCount - free) / PageCopies.slabPages {
      let slab: ZeroedMemory
      do throws(StorageError) { slab = try source() } catch { return }
      PageCopies.prefault(slab)
      state.withLock { $0.copies.add(slab) }
    }
  }

  /// Takes a chunk from the system, or one that was taken ahead when the system refuses.
  ///
  /// - Returns: where the chunk begins, and whether it was taken ahead: ``secure(chunks:pages:)``
  ///   must replace it before the next change.
  func chunk(isHuge: Bool) -> (base: UnsafeMutableRawPointer, isSpare: Bool) {
    state.withLock { state in
      var isSpare = false
      let chunk: ZeroedMemory
      do throws(StorageError) { chunk = try source(isHuge) } catch {
        guard let spare = state.spares.popLast() else {
          fatalError("secure() reserved no memory for a chunk of the index: \(error)")
        }
        chunk = spare
        isSpare = true
      }
      state.chunks.append(OwnChunk(memory: chunk, born: snapshotCount))
      return (chunk.base, isSpare)
    }
  }

  /// Takes a chunk that the index can do without.
  ///
  /// - Returns: nil when the system refuses.
  func optionalChunk() -> UnsafeMutableRawPointer? {
    state.withLock { state in
      do throws(StorageError) {
        let chunk = try source(false)
        state.chunks.append(OwnChunk(memory: chunk, born: snapshotCount))
        return chunk.base
      } catch {
        return nil
      }
    }
  }

  /// Number of chunks, and whether some are in a checkpoint's mapping; for tests.
  var chunkCounts: (own: Int, hasMapping: Bool) {
    state.withLock { state in
      let retired = state.retiredChunks.count { if case .own = $0.chunk { true } else { false } }
      return (state.chunks.count + retired, state.mapping != nil)
    }
  }

  /// Keeps a mapping that contains chunks, until they are retired.
  func keep(_ mapping: any FileMapping, byteCount: Int) {
    assert(byteCount % BucketArray.chunkBytes == 0, "a mapping is not used by whole chunks")
    guard byteCount > 0 else { return }
    state.withLock { state in
      precondition(state.mapping == nil, "an index has two mappings")
      assert(state.mappedBytes == 0, "bytes are in use of no mapping")
      state.mapping = mapping
      state.mappedBytes = byteCount
    }
  }

  /// Counts a snapshot that is being taken.
  ///
  /// - Returns: the snapshot's number.
  func takeSnapshot() -> UInt64 {
    state.withLock { state in
      let number = snapshotCount + 1
      assert(state.live.last ?? 0 < number, "the numbers of snapshots do not rise")
      taken.store(number, ordering: .relaxed)
      state.live.append(number)
      youngest.store(number, ordering: .releasing)
      return number
    }
  }

  /// Releases a snapshot, and the memory that was kept only for it. Does nothing in a forked child.
  func release(_ number: UInt64) {
    guard isInItsProcess else { return }
    let free = state.withLock { state in
      precondition(state.live.contains(number), "a snapshot was released twice")
      state.live.removeAll { $0 == number }
      let live = state.live
      state.retired.removeAll { retired in
        if retired.term.isNeeded(by: live) { return false }
        state.copies.free(retired.page.base)
        return true
      }
      if live.isEmpty { state.copies.returnEmptySlabs() }
      youngest.store(live.last ?? 0, ordering: .releasing)
      released.add(1, ordering: .relaxed)
      return state.takeFreeChunks()
    }
    free.returnMemory()
  }

  /// Returns a chunk's memory as soon as no snapshot has a page of it. The index's table has no
  /// page of it.
  func retire(chunkAt base: UnsafeMutableRawPointer, byteCount: Int) {
    let page = Page(base: base.assumingMemoryBound(to: UInt64.self))
    let free = state.withLock { state in
      let chunk: Chunk
      // A mapped chunk is older than all snapshots.
      var term = Term(born: 0, retired: snapshotCount)
      if let place = state.chunks.lastIndex(where: { $0.memory.base == page.base }) {
        let own = state.chunks.remove(at: place)
        (chunk, term.born) = (.own(own.memory), own.born)
      } else {
        precondition(state.mappedBytes >= byteCount, "more bytes are retired than were mapped")
        chunk = .mapped(page, byteCount: byteCount)
      }
      state.retiredChunks.append(RetiredChunk(chunk: chunk, term: term))
      return state.takeFreeChunks()
    }
    free.returnMemory()
  }

  /// Retires a copy whose place has left the index's table. The copy was in the table since `born`
  /// snapshots had been taken.
  func retire(copy page: UnsafeMutablePointer<UInt64>, born: UInt64) {
    assert(born <= snapshotCount, "a copy is younger than the last snapshot")
    let copy = Page(base: page)
    state.withLock { state in
      let term = Term(born: born, retired: snapshotCount)
      if term.isNeeded(by: state.live) {
        state.retired.append(Retired(page: copy, term: term))
      } else {
        state.copies.free(copy.base)
      }
    }
  }

  /// Returns the page to write to in place of a page that a snapshot has.
  ///
  /// - Parameters:
  ///   - page: the page in the index's table, there since `born` snapshots had been taken.
  ///   - home: the original page of its place, and the term in which the index's table had it last.
  /// - Returns: a page with the same bytes; it is `home` if no snapshot has that any more. nil when
  ///   no snapshot has the page.
  func replacement(
    for page: UnsafeMutablePointer<UInt64>, born: UInt64, home: UnsafeMutablePointer<UInt64>,
    _ homeTerm: Term
  ) -> UnsafeMutablePointer<UInt64>? {
    assert(born <= snapshotCount, "a page is younger than the last snapshot")
    guard born < youngest.load(ordering: .acquiring) else { return nil }
    let old = Page(base: page)
    let original = Page(base: home)
    let new = state.withLock { state -> Page? in
      guard let youngest = state.live.last, born < youngest else { return nil }
      let isAway = old.base != original.base
      let mayGoHome = isAway && !homeTerm.isNeeded(by: state.live)
      let new = mayGoHome ? original : Page(base: state.copies.take())
      new.base.update(from: old.base, count: BucketArray.pageBytes / 8)
      if isAway {
        state.retired.append(Retired(page: old, term: Term(born: born, retired: snapshotCount)))
      }
      return new
    }
    return new?.base
  }

  /// Copies a page's bytes back to the original page of its place, if no snapshot has that any
  /// more.
  ///
  /// - Parameters: as ``replacement(for:born:home:_:)``; `page` is a copy.
  /// - Returns: whether the bytes are in the original page now; the copy is no longer the caller's
  ///   then.
  func copyBack(
    _ page: UnsafeMutablePointer<UInt64>, born: UInt64, home: UnsafeMutablePointer<UInt64>,
    _ homeTerm: Term
  ) -> Bool {
    assert(page != home, "the page is the original already")
    assert(homeTerm.retired <= born, "a copy is older than the end of its original's term")
    let copy = Page(base: page)
    let original = Page(base: home)
    return state.withLock { state in
      guard !homeTerm.isNeeded(by: state.live) else { return false }
      original.base.update(from: copy.base, count: BucketArray.pageBytes / 8)
      let term = Term(born: born, retired: snapshotCount)
      if term.isNeeded(by: state.live) {
        state.retired.append(Retired(page: copy, term: term))
      } else {
        state.copies.free(copy.base)
      }
      return true
    }
  }
}
