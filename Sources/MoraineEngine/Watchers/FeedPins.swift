import MoraineStorage
import Synchronization

/// What the iterators of a store have still to see, so that compaction leaves it to them for a
/// while.
final class FeedPins: Sendable {
  /// An iterator that has not moved for so long is waited for no more.
  let patienceNanoseconds = Atomic<UInt64>(10_000_000_000)
  /// How many bytes of the log compaction leaves to iterators, at most.
  let limitBytes = Atomic<Int>(64 << 20)

  private struct Place {
    var sequence: UInt64
    var movedNanoseconds: UInt64
  }

  private struct State {
    var places: [Int: Place] = [:]
    var nextID = 0
    /// Where the other processes of a shared store see what this one waits for.
    var page: SharedPage?
    var pin: Int?
    let owner = SystemRandom.number() | 1
  }

  private let state = Mutex(State())

  func add(_ sequence: UInt64) -> FeedPin {
    let place = Place(sequence: sequence, movedNanoseconds: SystemClock.monotonicNanoseconds())
    let id = state.withLock { state in
      state.nextID += 1
      state.places[state.nextID] = place
      tellOthers(&state)
      return state.nextID
    }
    return FeedPin(id: id, in: self)
  }

  fileprivate func move(_ id: Int, to sequence: UInt64) {
    let place = Place(sequence: sequence, movedNanoseconds: SystemClock.monotonicNanoseconds())
    state.withLock { state in
      state.places[id] = place
      tellOthers(&state)
    }
  }

  fileprivate func remove(_ id: Int) {
    state.withLock { state in
      state.places[id] = nil
      tellOthers(&state)
    }
  }

  /// From now on other processes may compact the store.
  func share(_ page: SharedPage) {
    state.withLock { state in
      state.page = page
      state.pin = nil
      tellOthers(&state)
    }
  }

  private func tellOthers(_ state: inout State) {
    guard let page = state.page, page.isWritable else { return }
    if state.places.isEmpty, state.pin == nil { return }
    let now = SystemClock.monotonicNanoseconds()
    if state.pin == nil || state.pin.map({ page.isPin($0, of: state.owner) }) == false {
      state.pin = page.takePin(state.owner, now: now)
    }
    // Where all places are taken, compaction does not wait, and the feed says what it promises
    // then.
    guard let pin = state.pin else { return }
    let patience = patienceNanoseconds.load(ordering: .relaxed)
    let (until, isOver) = now.addingReportingOverflow(patience)
    page.movePin(pin, to: least(state, now), until: isOver ? .max : until)
  }

  /// What is behind this sequence number, some iterator has still to see; the maximum when there is
  /// nobody to wait for.
  var leastSequence: UInt64 {
    let now = SystemClock.monotonicNanoseconds()
    return state.withLock { state in
      min(least(state, now), state.page?.leastPin(now: now) ?? .max)
    }
  }

  private func least(_ state: State, _ now: UInt64) -> UInt64 {
    let patience = patienceNanoseconds.load(ordering: .relaxed)
    return state.places.values.reduce(UInt64.max) { least, place in
      now &- place.movedNanoseconds < patience ? min(least, place.sequence) : least
    }
  }
}

/// One iterator's claim; it goes with the iterator.
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

/// A claim that waits for the iterator that takes it over.
final class FeedPinHandover: Sendable {
  private let pin: Mutex<FeedPin?>

  init(_ pin: FeedPin?) { self.pin = Mutex(pin) }

  /// Nil for all but the first.
  func take() -> FeedPin? {
    pin.withLock { pin in
      defer { pin = nil }
      return pin
    }
  }
}
