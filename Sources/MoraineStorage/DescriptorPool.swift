import CMoraineShims
import Synchronization

/// An object that can close its descriptor and open it again later.
protocol Parkable: AnyObject, Sendable {
  /// Closes the descriptor, if no call uses it and nothing depends on it. Blocks for a few system
  /// calls at most.
  ///
  /// - Returns: whether the descriptor was closed.
  func park() -> Bool
  /// Clears the mark that a call has used the descriptor, and returns whether it was set.
  func takeReference() -> Bool
}

/// The descriptors that a process has for its stores: at most half of the limit (`ulimit -n`), as
/// long as the pool finds idle descriptors to park.
///
/// An open store has these descriptors:
///
/// - Exclusive: the directory, `LOCK` and the active segment; without mappings also up to 64 sealed
///   segments that were read. All of them can be parked.
/// - Shared: the directory, `LOCK`, `SHARED`, after a write the active segment, and without
///   mappings up to 64 segments. These stay open. `WRITER` and `COMPACTOR` can be parked while they
///   are not locked.
/// - Read-only: the directory and `LOCK`, which can be parked; without mappings up to 64 segments,
///   which stay open, because a writer may remove them.
///
/// Mapped segments need no descriptor. All stores of a process share one descriptor for the file
/// system's events.
///
/// **Parking.** Below the limit nothing is parked. At the limit the pool parks descriptors that no
/// call has used for the longest time (approximately: a queue with a second chance). The next call
/// that needs the descriptor opens the file again by its name and compares device and inode. It
/// throws `ESTALE` when the name leads elsewhere; the engine reports that as `.storeReplaced`.
///
/// **Locks and errors survive parking.** Two things belong to the kernel's open file and would end
/// with its last descriptor: its locks, and the write errors that no sync has reported yet. A
/// mapping keeps the open file without a descriptor (``KeptFile``):
/// - A file that is open for writing is parked with such a mapping. A sync of a parked file is
///   `msync` of that mapping: `fdatasync` of the same open file. When the file was opened again, a
///   sync covers both open files, so it reports the errors of both. The mapping also keeps the
///   inode: no other file that replaces this one is mistaken for it. A file that is only read has
///   no such mapping; the checksum of each of its records shows which segment the record belongs
///   to.
/// - The lock on `LOCK` moves to a new open file that only a mapping keeps. Forked children do not
///   inherit the mapping, so a child cannot keep the lock after its parent.
/// - The lock on the directory cannot move to a mapping, because directories cannot be mapped.
///   While the directory is parked, the lock is on the manifest, which is mapped in the same way.
///   Each opening that gets the directory's lock tries the manifest's lock too. So the deletion of
///   `LOCK` lets no second writer in, whether the store is parked or not. No other process replaces
///   the manifest of an exclusive store. The manifest of a shared store may be replaced, so a
///   shared store's directory stays open. The directory and `LOCK` also stay open where a mapping
///   does not keep a lock, as on overlayfs.
///
/// A file that another process may remove while this one reads it is not parked. On other systems
/// than Linux and Android nothing is parked, because a mapping may not keep a lock there.
///
/// Opening again needs the permissions that opening needed: a process that drops privileges after
/// an opening should raise its limit of descriptors.
///
/// Thread safety: a mutex protects the queue, and is held only briefly. No lock is held while an
/// object is parked.
package final class DescriptorPool: OfOneProcess {
  private static let place = PerProcess<DescriptorPool>()

  package static var current: DescriptorPool { place.current }

  private struct Candidate {
    weak var object: (any Parkable)?
  }

  private struct State: Sendable {
    var queue: [Candidate] = []
    /// The number of entries at the queue's beginning that were taken. They are removed in groups.
    var taken = 0
    /// The number of entries at which the entries of released objects are removed.
    var sweepCount = 1024

    /// - Returns: the objects that were looked at. This may be the last reference to one of them,
    ///   and the object must not end under the lock.
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

  package let forkGeneration = CurrentProcess.forkGeneration
  private let state = Mutex(State())
  // These are only counters: no thread reads other memory because of their values, so relaxed
  // orderings suffice.
  private let openCount = Atomic<Int>(0)
  private let limit = Atomic<Int>(0)
  private let isFixed = Atomic<Bool>(false)
  private let parkedCount = Atomic<Int>(0)

  package init() { readLimit() }

  /// The number of open descriptors of files and directories.
  package var count: Int { openCount.load(ordering: .relaxed) }

  /// The number of times that a descriptor was parked.
  package var parkings: Int { parkedCount.load(ordering: .relaxed) }

  /// Reads from the system how many descriptors the process may have.
  func readLimit() {
    if isFixed.load(ordering: .relaxed) { return }
    let answer = moraine_descriptor_limit()
    limit.store(answer < 0 ? 512 : max(1, Int(answer) / 2), ordering: .relaxed)
  }

  /// Sets the number of descriptors at which parking begins, whatever the system's limit; for
  /// tests.
  package func fixLimit(_ count: Int) {
    isFixed.store(true, ordering: .relaxed)
    limit.store(count, ordering: .relaxed)
  }

  /// Parks every descriptor that can be parked, for tests.
  package func parkAll() {
    while park(evenIfReferenced: true) {}
  }

  /// Parks descriptors until there is room for one more, or until none is left to park.
  func makeRoom() {
    while count >= limit.load(ordering: .relaxed), park() {}
  }

  /// Parks the descriptor that was used least recently.
  ///
  /// - Returns: whether a descriptor was parked.
  func park(evenIfReferenced: Bool = false) -> Bool {
    // Each candidate is tried twice: the first time may only clear its reference mark.
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

  /// Adds an object that can be parked, once for each time that it was opened.
  func add(_ object: any Parkable) {
    let living = state.withLock { $0.add(object) }
    withExtendedLifetime(living) {}
  }

  /// The number of entries in the queue, for tests.
  var queueCount: Int { state.withLock { $0.queue.count } }

  func opened() { openCount.add(1, ordering: .relaxed) }

  func closed() { openCount.subtract(1, ordering: .relaxed) }
}
