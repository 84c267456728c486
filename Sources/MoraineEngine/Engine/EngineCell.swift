/// Storage of the engine in the store's actor, in optimized builds.
///
/// The runtime tracks each access to a stored property of an actor, so that no two overlap: some
/// 200 instructions for every key that is read or written. It does not track memory that a
/// pointer leads to. (With `_read` and `_modify` instead of addressors, Swift 6.3 allocates a frame
/// for each access and copies the engine.)
///
/// Safety: only the actor has the cell. An access to the engine ends before any other code of the
/// actor can run: no operation of the engine is asynchronous, and none calls a function that a user
/// passed to it. Debug builds have a stored property instead, so that the runtime tracks the
/// accesses of the tests; an access within another one traps there.
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

/// Carries a state from the thread that made it to the actor that will own it.
///
/// Safety of `@unchecked Sendable`: the box is made on one thread, passed once through a
/// continuation, and its state is taken once by the receiver; two threads never use it at the same
/// time.
final class EngineBox: @unchecked Sendable {
  private var state: EngineState?

  init(_ state: consuming EngineState?) {
    self.state = state
  }

  func take() -> EngineState? {
    state.take()
  }
}
