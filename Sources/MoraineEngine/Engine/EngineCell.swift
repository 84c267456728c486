/// Where the store's actor keeps the engine in optimized builds.
///
/// The runtime watches each access to a stored property of an actor, so that no two overlap: some
/// 200 instructions for every key that is read or written. What lies behind a pointer is not
/// watched. (With `_read` and `_modify` in its place, Swift 6.3 allocates a frame for each access
/// and copies the engine.)
///
/// Safety: only the actor has the cell. An access to the engine ends before anything else of the
/// actor can run: no operation of the engine is asynchronous, and none calls what a user gave it.
/// Debug builds have a stored property instead, so that the runtime watches what the tests do; an
/// access within another one traps there.
struct EngineCell: ~Copyable {
  let place: UnsafeMutablePointer<EngineState?>

  init(_ engine: consuming EngineState?) {
    place = .allocate(capacity: 1)
    place.initialize(to: engine)
  }

  deinit {
    place.deinitialize(count: 1)
    place.deallocate()
  }
}

/// Carries a state from the thread that made it to the actor that will have it.
///
/// Safety of `@unchecked Sendable`: made on one thread, handed over once through a continuation,
/// and taken once by the receiver; never in two hands at a time.
final class EngineBox: @unchecked Sendable {
  private var state: EngineState?

  init(_ state: consuming EngineState?) {
    self.state = state
  }

  func take() -> EngineState? {
    state.take()
  }
}
