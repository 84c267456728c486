import MoraineStorage
import Synchronization

/// Positions of the iterators of a store. Compaction keeps the operations after them for a while.
final class FeedPins: Sendable {
  /// Compaction waits no longer for an iterator that has not moved for this time.
  let patienceNanoseconds = Atomic<UInt64>(10_000_000_000)
  /// The most bytes of the log that compaction keeps for iterators.
  let limitBytes = Atomic<Int>(64 << 20)

  private struct Place {
    let sequence: UInt64
    /// Read while the lock is held, as is each time with which it is compared.
    let movedNanoseconds = SystemClock.monotonicNanoseconds()
  }

  private struct State {
    var places: [Int: Place] = [:]
    var nextID = 0
    /// The page on which the other processes of a shared store see the pin of this process.
    var page: SharedPage?
    var pin: Int?
    let owner = SystemRandom.number() | 1
  }

  private let state = Mutex(State())
  private let forkGeneration = CurrentProcess.forkGeneration

  /// Whether this process has created the pins. A forked child has a copy of them, and its parent's
  /// pin on the page.
  private var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }

  func add(_ sequence: UInt64) -> FeedPin {
    // A forked child reads no changes, and must not wait for a lock that a thread of the parent may
    // have held.
    guard isInItsProcess else { return FeedPin(id: 0, in: self) }
    let id = state.withLock { state in
      state.nextID += 1
      assert(state.places[state.nextID] == nil, "two iterators have the same pin")
      state.places[state.nextID] = Place(sequence: sequence)
      publishPin(&state)
      return state.nextID
    }
    return FeedPin(id: id, in: self)
  }

  fileprivate func move(_ id: Int, to sequence: UInt64) {
    guard isInItsProcess else { return }
    state.withLock { state in
      assert(state.places[id] != nil, "a pin is moved that was removed")
      state.places[id] = Place(sequence: sequence)
      publishPin(&state)
    }
  }

  fileprivate func remove(_ id: Int) {
    guard isInItsProcess else { return }
    state.withLock { state in
      assert(state.places[id] != nil, "a pin is removed twice")
      state.places[id] = nil
      publishPin(&state)
    }
  }

  /// Calls the body while the lock is held, as a thread of a parent may hold it during a fork; for
  /// tests.
  func whileLocked(_ body: () -> Void) { state.withLock { _ in body() } }

  /// Shows the pins to other processes, which may compact the store from now on.
  func share(_ page: SharedPage) {
    state.withLock { state in
      state.page = page
      state.pin = nil
      publishPin(&state)
    }
  }

  private func publishPin(_ state: inout State) {
    guard isInItsProcess, let page = state.page, page.isWritable else { return }
    if state.places.isEmpty, state.pin == nil { return }
    let now = SystemClock.monotonicNanoseconds()
    if state.pin == nil || state.pin.map({ page.isPin($0, of: state.owner) }) == false {
      state.pin = page.takePin(state.owner, now: now)
    }
    // When all pins of the page are taken, compaction does not wait for this process, and its feeds
    // may expire.
    guard let pin = state.pin else { return }
    let patience = patienceNanoseconds.load(ordering: .relaxed)
    let (until, isOver) = now.addingReportingOverflow(patience)
    page.movePin(pin, to: least(state, now), until: isOver ? .max : until)
  }

  /// The number after which some iterator has still to see operations; the maximum when compaction
  /// need not wait for any.
  var leastSequence: UInt64 {
    // A forked child compacts nothing.
    guard isInItsProcess else { return .max }
    return state.withLock { state in
      // In the lock: no pin was moved later than that.
      let now = SystemClock.monotonicNanoseconds()
      return min(least(state, now), state.page?.leastPin(now: now) ?? .max)
    }
  }

  private func least(_ state: State, _ now: UInt64) -> UInt64 {
    let patience = patienceNanoseconds.load(ordering: .relaxed)
    return state.places.values.reduce(UInt64.max) { least, place in
      assert(place.movedNanoseconds <= now, "a pin was moved after its time was compared")
      return now &- place.movedNanoseconds < patience ? min(least, place.sequence) : least
    }
  }
}

/// The pin of one iterator. It is removed with the iterator.
final class FeedPin: Sendable {
  private let id: Int
  private let pins: FeedPins

  fileprivate init(id: Int, in pins: FeedPins) {
    self.id = id
    self.pins = pins
  }

  deinit { pins.remove(id) }

  func move(to sequence: UInt64) { pins.move(id, to: sequence) }
}

/// A pin that waits for the iterator that takes it over.
final class FeedPinHandover: Sendable {
  private let pin: Mutex<FeedPin?>

  init(_ pin: FeedPin?) { self.pin = Mutex(pin) }

  /// Returns the pin to the first caller, and nil to all later ones.
  func take() -> FeedPin? {
    pin.withLock { pin in
      defer { pin = nil }
      return pin
    }
  }
}
