import CMoraineShims
import Synchronization

/// What can give its descriptor back and open it again.
protocol Parkable: AnyObject, Sendable {
  /// Gives the descriptor back, if no call uses it and nothing depends on it. Blocks for a few
  /// calls of the kernel at most.
  ///
  /// - Returns: whether the descriptor was given back.
  func park() -> Bool
  /// Whether a call has used it since this was asked last.
  func takeReference() -> Bool
}

/// The descriptors that a process has for its stores: at most half of the limit (`ulimit -n`), as
/// far as there are idle ones that can be given back.
///
/// An open store has these descriptors:
///
/// - Exclusive: the directory, `LOCK` and the active segment; without mappings also up to 64 sealed
///   segments that were read. All of them are parked.
/// - Shared: the directory, `LOCK`, `SHARED`, after a write the active segment, and without
///   mappings up to 64 segments: these stay. `WRITER` and `COMPACTOR` are parked while they are not
///   locked.
/// - Read-only: the directory and `LOCK`, which are parked; without mappings up to 64 segments,
///   which stay, for a writer may remove them.
///
/// Mapped segments need no descriptor. All of a process's stores together have one descriptor for
/// the file system's events.
///
/// **Parking.** Below the limit nothing is given back. At the limit the pool parks descriptors that
/// no call has used for the longest time (approximately: a queue with a second chance). The next
/// call that needs the descriptor opens the file again by its name, compares device and inode, and
/// throws `ESTALE` when the name leads elsewhere; the engine says `.storeReplaced` then.
///
/// **What a descriptor stands for is kept.** Two things belong to the kernel's open file and would
/// end with its last descriptor: its locks, and the errors of writing that no sync has reported
/// yet. A mapping keeps the open file without a descriptor (``KeptFile``):
/// - A file that is open for writing is parked with such a mapping. A sync of a parked file is
///   `msync` of that mapping: `fdatasync` of the same open file. When the file was opened again, a
///   sync asks both open files, so it reports what either has to report. The mapping also keeps the
///   inode: no other file that somebody puts in this one's place is taken for it. A file that is
///   only read has none; each of its records says by its checksum which segment it belongs to.
/// - The lock on `LOCK` moves to a new open file that only a mapping keeps. The mapping is not
///   given to forked children, so a child cannot keep the lock after its parent.
/// - The lock on the directory cannot move to a mapping, for directories have none. While the
///   directory is parked, the lock is on the manifest, which is mapped in the same way; each
///   opening that gets the directory's lock tries the manifest's too. So a deleted `LOCK` lets no
///   second writer in, whether the store is parked or not. No other process replaces the manifest
///   of an exclusive store; that of a shared store may be replaced, so a shared store's directory
///   stays. So do directory and `LOCK` where a mapping does not keep a lock, as on overlayfs.
///
/// A file that another process may remove while this one reads it is not parked. Elsewhere than on
/// Linux nothing is parked, for a mapping may not keep a lock there.
///
/// Opening again needs the permissions that opening needed: a process that has given up rights
/// since should raise its limit of descriptors.
///
/// Thread safety: the queue is behind a mutex that is held for moments. No lock is held while an
/// object is parked.
package final class DescriptorPool: OfOneProcess {
  private static let place = PerProcess<DescriptorPool>()

  package static var current: DescriptorPool { place.current }

  private struct Candidate {
    weak var object: (any Parkable)?
  }

  private struct State: Sendable {
    var queue: [Candidate] = []
    /// How many entries at the queue's beginning were taken; they are dropped now and then.
    var taken = 0
    /// At how many entries those are dropped whose object is gone.
    var sweepCount = 1024

    /// - Returns: the objects that were looked at. One of them may have no other reference left,
    ///   and must not end under the lock.
    mutating func add(_ object: any Parkable) -> [any Parkable] {
      queue.append(Candidate(object: object))
      guard queue.count >= sweepCount else { return [] }
      let living = queue[taken...].compactMap(\.object)
      queue = living.map { Candidate(object: $0) }
      taken = 0
      sweepCount = max(1024, 2 * queue.count)
      return living
    }

    mutating func take() -> (any Parkable)? {
      while taken < queue.count {
        let object = queue[taken].object
        taken += 1
        if taken >= 1024, taken * 2 >= queue.count {
          queue.removeFirst(taken)
          taken = 0
        }
        if let object { return object }
      }
      queue = []
      taken = 0
      return nil
    }
  }

  let forkGeneration = CurrentProcess.forkGeneration
  private let state = Mutex(State())
  // Counters alone: nothing is read by their values, so relaxed orderings do.
  private let openCount = Atomic<Int>(0)
  private let limit = Atomic<Int>(0)
  private let isFixed = Atomic<Bool>(false)
  private let parkedCount = Atomic<Int>(0)

  init() { readLimit() }

  /// How many descriptors of files and directories are open.
  package var count: Int { openCount.load(ordering: .relaxed) }

  /// How often a descriptor was given back.
  package var parkings: Int { parkedCount.load(ordering: .relaxed) }

  /// Asks the system how many descriptors the process may have.
  func readLimit() {
    if isFixed.load(ordering: .relaxed) { return }
    let answer = moraine_descriptor_limit()
    limit.store(answer < 0 ? 512 : max(1, Int(answer) / 2), ordering: .relaxed)
  }

  /// Has descriptors given back at this number of them, whatever the system's limit; for tests.
  package func fixLimit(_ count: Int) {
    isFixed.store(true, ordering: .relaxed)
    limit.store(count, ordering: .relaxed)
  }

  /// Gives every descriptor back that can be, for tests.
  package func parkAll() {
    while park(evenIfReferenced: true) {}
  }

  /// Parks until there is room for one more descriptor, or nothing is left to park.
  func makeRoom() {
    while count >= limit.load(ordering: .relaxed), park() {}
  }

  /// Parks the descriptor that was used least recently.
  ///
  /// - Returns: whether there was one.
  func park(evenIfReferenced: Bool = false) -> Bool {
    // Each candidate twice: the first time its reference may be taken away.
    var attempts = state.withLock { 2 * ($0.queue.count - $0.taken) }
    while attempts > 0, let candidate = state.withLock({ $0.take() }) {
      attempts -= 1
      if evenIfReferenced || !candidate.takeReference(), candidate.park() {
        parkedCount.add(1, ordering: .relaxed)
        return true
      }
      add(candidate)
    }
    return false
  }

  /// Adds what can be parked: once for each time that it was opened.
  func add(_ object: any Parkable) {
    let living = state.withLock { $0.add(object) }
    withExtendedLifetime(living) {}
  }

  /// How many entries the queue has, for tests.
  var queueCount: Int { state.withLock { $0.queue.count } }

  func opened() { openCount.add(1, ordering: .relaxed) }

  func closed() { openCount.subtract(1, ordering: .relaxed) }
}
