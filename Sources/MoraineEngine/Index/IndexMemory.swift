import MoraineStorage
import Synchronization

/// The memory of an index and of its snapshots.
///
/// Copy on write, by pages: a page that a snapshot has is never written again while it lives.
/// Whoever changes the index takes a copy of the page first; the old one is used anew when the last
/// snapshot that has it is gone. (The idea is that of shadow paging: Lorie, "Physical integrity in
/// a large segmented database", TODS 1977; LMDB does it with pages of a file.)
///
/// Safety: what is in a page is written by the one who has the index, and read by that one and by
/// snapshots. A page in a snapshot's table is in one of two states. It is in the index's table too:
/// then it was made before that snapshot was taken, ``replacement(for:born:)`` answers with a copy
/// to each change, and nobody writes to it. Or it is retired: then it is in `retired`, from where
/// it gets to `free`, and to a writer, only when no snapshot is alive that was taken between its
/// making and its retirement; the lock orders that snapshot's last read before the writer's first
/// write. Memory as a whole is given back by `deinit`: the index and every snapshot hold a
/// reference.
final class IndexMemory: Sendable {
  /// Safety of `@unchecked Sendable`: it only says where a page is. Who may read and write there,
  /// and when, is the argument above.
  private struct Page: @unchecked Sendable {
    let base: UnsafeMutablePointer<UInt64>
  }

  private struct Retired {
    let page: Page
    /// How many snapshots had been taken when it was made.
    let born: UInt64
    /// And when it was replaced.
    let retired: UInt64
  }

  private struct State {
    var chunks: [ZeroedMemory] = []
    var mapping: (any FileMapping)?
    /// The numbers of the snapshots that are alive, ascending.
    var live: [UInt64] = []
    var retired: [Retired] = []
    var free: [Page] = []
    /// What was allocated for copies, each a page.
    var copies: [Page] = []
  }

  private let state = Mutex(State())
  /// The number of the youngest snapshot that is alive; 0 when there is none.
  private let youngest = Atomic<UInt64>(0)
  private let taken = Atomic<UInt64>(0)

  init() {}

  deinit {
    state.withLock { state in
      for chunk in state.chunks { chunk.deallocate() }
      for page in state.copies { page.base.deallocate() }
    }
  }

  /// How many snapshots were ever taken. They are numbered from 1.
  var snapshotCount: UInt64 { taken.load(ordering: .relaxed) }

  /// Whether any snapshot is alive. When there is none, all that they have read was read.
  var isFrozen: Bool { youngest.load(ordering: .acquiring) != 0 }

  func chunk(_ byteCount: Int, isHuge: Bool) -> UnsafeMutableRawPointer {
    let chunk = ZeroedMemory(byteCount: byteCount, isHuge: isHuge)
    state.withLock { $0.chunks.append(chunk) }
    return chunk.base
  }

  /// Keeps a mapping that pages lie in.
  func keep(_ mapping: any FileMapping) { state.withLock { $0.mapping = mapping } }

  /// - Returns: the number of a snapshot that is being taken.
  func takeSnapshot() -> UInt64 {
    state.withLock { state in
      let number = snapshotCount + 1
      taken.store(number, ordering: .relaxed)
      state.live.append(number)
      youngest.store(number, ordering: .releasing)
      return number
    }
  }

  /// Gives back what only that snapshot has kept.
  func release(_ number: UInt64) {
    state.withLock { state in
      state.live.removeAll { $0 == number }
      let live = state.live
      state.retired.removeAll { retired in
        let isNeeded = live.contains { $0 > retired.born && $0 <= retired.retired }
        if !isNeeded { state.free.append(retired.page) }
        return !isNeeded
      }
      youngest.store(live.last ?? 0, ordering: .releasing)
    }
  }

  /// - Returns: a copy to be written to; nil when no snapshot has the page.
  func replacement(
    for page: UnsafeMutablePointer<UInt64>, born: UInt64
  ) -> UnsafeMutablePointer<UInt64>? {
    guard born < youngest.load(ordering: .acquiring) else { return nil }
    let old = Page(base: page)
    let copy = state.withLock { state -> Page? in
      guard let youngest = state.live.last, born < youngest else { return nil }
      let copy = state.free.popLast() ?? Self.makePage(&state)
      copy.base.update(from: old.base, count: BucketArray.pageBytes / 8)
      state.retired.append(Retired(page: old, born: born, retired: snapshotCount))
      return copy
    }
    return copy?.base
  }

  private static func makePage(_ state: inout State) -> Page {
    let raw = UnsafeMutableRawPointer.allocate(
      byteCount: BucketArray.pageBytes, alignment: HashIndex.bucketBytes)
    let page = Page(base: raw.bindMemory(to: UInt64.self, capacity: BucketArray.pageBytes / 8))
    state.copies.append(page)
    return page
  }
}
