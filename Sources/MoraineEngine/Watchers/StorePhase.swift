import MoraineStorage
import Synchronization

/// State of a store that can be read without its actor: whether the store can be used, which
/// directory it has, and whether it still holds the lock on that directory.
///
/// The object outlives the store. An opening in this process that finds its directory locked asks
/// this object whether the store with the lock is being closed or released, whether a task of the
/// store works in the background, or whether the store is in use. Only in the last case it does not
/// wait.
final class StorePhase: Sendable {
  private struct State {
    weak var store: (any AnyObject & Sendable)?
    var phase = Phase.opening
    var directory: FileIdentity?
    /// The number of tasks of the store that hold a reference to it.
    var taskCount = 0
    /// The number of locks on the directory. The store's jobs may hold one longer than the store
    /// exists.
    var lockCount = 0
    /// Whether the store exists no longer, or has closed.
    var isOver = false

    /// Ends the use of the directory, unless a job has not released the lock yet.
    mutating func endIfUnlocked() -> Bool {
      guard isOver, lockCount == 0 else { return false }
      phase = .ended
      return true
    }
  }

  private enum Phase {
    /// No `Store` exists yet.
    case opening
    case open
    /// `close()` has begun.
    case closing
    /// The store has released the directory.
    case ended
  }

  private let state = Mutex(State())
  private let forkGeneration = CurrentProcess.forkGeneration
  private let hasBegunToClose = Atomic<Bool>(false)
  /// The number of openings that wait for the tasks of the store. Only a hint: sequentially
  /// consistent, but no other memory depends on it.
  private let openingCount = Atomic<Int>(0)

  /// Whether `close()` has begun.
  ///
  /// Acquiring and releasing: a thread that reads true sees all that the actor did before.
  var isClosing: Bool { hasBegunToClose.load(ordering: .acquiring) }

  /// The directory that the store has open, or had open last; nil before the first one.
  var directory: FileIdentity? { state.withLock { $0.directory } }

  func opened(_ store: any AnyObject & Sendable) {
    state.withLock { state in
      state.store = store
      if state.phase == .opening { state.phase = .open }
    }
  }

  func setDirectory(_ directory: any StorageDirectory) {
    guard let identity = directory.identity else { return }
    state.withLock { $0.directory = identity }
    Self.all.references.withLock { entries in
      entries.removeAll { $0.phase == nil || $0.phase === self }
      entries.append(Reference(phase: self))
    }
  }

  /// Whether this process has created the object. A forked child has a copy of it, and must not
  /// wait for its lock: a thread of the parent may have held it.
  private var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  /// Calls the body while the lock is held, as a thread of a parent may hold it during a fork; for
  /// tests.
  func whileLocked(_ body: () -> Void) { state.withLock { _ in body() } }

  func beginClosing() {
    hasBegunToClose.store(true, ordering: .releasing)
    guard isInItsProcess else { return }
    state.withLock { state in
      if state.phase != .ended { state.phase = .closing }
    }
  }

  /// Records that the store exists no longer, or has closed.
  func end() {
    guard isInItsProcess else { return }
    let isEnded = state.withLock { state in
      state.isOver = true
      return state.endIfUnlocked()
    }
    if isEnded { forget() }
  }

  func tookLock() { state.withLock { $0.lockCount += 1 } }

  func releasedLock() {
    guard isInItsProcess else { return }
    let isEnded = state.withLock { state in
      precondition(state.lockCount > 0, "a lock is released twice")
      state.lockCount -= 1
      return state.endIfUnlocked()
    }
    if isEnded { forget() }
  }

  private func forget() {
    Self.all.references.withLock { entries in
      entries.removeAll { $0.phase == nil || $0.phase === self }
    }
  }

  /// Whether the store is about to release its directory: it is being closed, or its last reference
  /// is gone and `deinit` has not ended.
  private var isLeaving: Bool {
    let (phase, store) = state.withLock { ($0.phase, $0.store) }
    // This may be the last reference. The end of the store takes the lock, so it must come later.
    defer { withExtendedLifetime(store) {} }
    switch phase {
    case .opening, .ended: return false
    case .open: return store == nil
    case .closing: return true
    }
  }

  /// Whether an opening waits until no task of the store is at work, so that long tasks should end
  /// early.
  var isAwaited: Bool { openingCount.load(ordering: .sequentiallyConsistent) > 0 }

  /// Records that a task has a reference to the store. The program may release all others.
  func beginTask() { state.withLock { $0.taskCount += 1 } }

  /// Records that a task has released its reference to the store.
  func endTask() {
    state.withLock { state in
      precondition(state.taskCount > 0, "a task of a store ends twice")
      state.taskCount -= 1
    }
  }

  /// Runs a task's work, which takes a reference to the store and releases it.
  nonisolated(nonsending) func runTask<Result: Sendable>(
    _ work: nonisolated(nonsending) () async -> Result
  ) async -> Result {
    beginTask()
    defer { endTask() }
    return await work()
  }

  private var isBusy: Bool { state.withLock { $0.taskCount > 0 } }

  private struct Reference {
    weak var phase: StorePhase?
  }

  /// The objects of all stores of a process that have a directory on the disk.
  private final class List: OfOneProcess {
    let forkGeneration = CurrentProcess.forkGeneration
    let references = Mutex<[Reference]>([])

    init() {}
  }

  private static let place = PerProcess<List>()

  /// The objects of this process. A forked child begins with none: the tasks of its parent's stores
  /// never end there, and a thread of the parent may have held the lock of the parent's list.
  private static var all: List { place.current }

  /// Calls the body while the lock of the list is held, as a thread of a parent may hold it during
  /// a fork; for tests.
  static func whileListIsLocked(_ body: () -> Void) { all.references.withLock { _ in body() } }

  private static var living: [StorePhase] {
    all.references.withLock { $0.compactMap(\.phase) }
  }

  /// The use of a locked directory by the stores of this process.
  enum Holder {
    /// No store of this process has the directory.
    case elsewhere
    case inUse
    /// A task of the store is at work. It is not known whether the program has references.
    case busy
    case leaving
  }

  /// Whether an opening that begins now may have to wait for another store of this process.
  static var isAnyLeaving: Bool {
    living.contains { $0.isLeaving || $0.isBusy }
  }

  static func holder(of directory: FileIdentity) -> Holder {
    let entries = living.filter { $0.directory == directory }
    if entries.contains(where: \.isLeaving) { return .leaving }
    if entries.contains(where: \.isBusy) { return .busy }
    return entries.isEmpty ? .elsewhere : .inUse
  }

  /// Makes the long tasks of the stores that have the directory end early, until the result is
  /// ended.
  static func awaitTasks(of directory: FileIdentity) -> TaskWait {
    TaskWait(living.filter { $0.directory == directory })
  }

  /// The wait of an opening for the tasks of stores.
  struct TaskWait {
    private let phases: [StorePhase]

    fileprivate init(_ phases: [StorePhase]) {
      self.phases = phases
      for phase in phases { phase.openingCount.add(1, ordering: .sequentiallyConsistent) }
    }

    func end() {
      for phase in phases { phase.openingCount.subtract(1, ordering: .sequentiallyConsistent) }
    }
  }
}

/// Marks the end of a lock, which may outlive its store. It is the last stored property of the
/// lock, so it is released after the lock's files.
final class LockUse: Sendable {
  private let phase: StorePhase
  private let hasEnded = Atomic<Bool>(false)

  init(_ phase: StorePhase) {
    self.phase = phase
    phase.tookLock()
  }

  deinit { end() }

  /// Records that the lock was released. Has an effect only once.
  func end() {
    if !hasEnded.exchange(true, ordering: .sequentiallyConsistent) { phase.releasedLock() }
  }
}

/// Marks the end of a store. It is the last stored property of ``Store``, so it is released after
/// the engine and the lock that the engine holds.
final class StoreEnding: Sendable {
  private let phase: StorePhase

  init(_ phase: StorePhase) { self.phase = phase }

  deinit { phase.end() }
}
