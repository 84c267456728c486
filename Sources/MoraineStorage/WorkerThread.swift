import CMoraineShims
import SystemPackage

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// State that a lock protects. Threads can wait for it to change.
///
/// Safety of `@unchecked Sendable`: `state` is accessed only between lock and unlock.
package final class Monitor<State>: @unchecked Sendable {
  private var state: State
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  package init(_ state: sending State) {
    self.state = state
    mutex = .allocate(capacity: 1)
    condition = .allocate(capacity: 1)
    pthread_mutex_init(mutex, nil)
    #if canImport(Darwin)
      pthread_cond_init(condition, nil)
    #else
      // By default a condition waits for a time of day, which can be set back.
      var attributes = pthread_condattr_t()
      pthread_condattr_init(&attributes)
      let code = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
      precondition(code == 0, "the system has no monotonic clock (error \(code))")
      pthread_cond_init(condition, &attributes)
      pthread_condattr_destroy(&attributes)
    #endif
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  /// Runs the body with exclusive access to the state.
  package func withLock<Result>(_ body: (inout State) -> Result) -> Result {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return body(&state)
  }

  package func signal() { pthread_cond_signal(condition) }

  /// Wakes all waiting threads.
  package func broadcast() { pthread_cond_broadcast(condition) }

  /// Runs the body, and again after every signal and at the time that it returns, until it returns
  /// an answer.
  package func wait<Answer>(_ body: (inout State) -> Wait<Answer>) -> Answer {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while true {
      switch body(&state) {
      case .done(let answer): return answer
      case .forSignal: pthread_cond_wait(condition, mutex)
      case .atMost(let nanoseconds): waitForSignal(min(nanoseconds, 3_600_000_000_000))
      }
    }
  }

  /// Waits by a clock that cannot be set.
  private func waitForSignal(_ nanoseconds: UInt64) {
    #if canImport(Darwin)
      var time = timespec(
        tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
      pthread_cond_timedwait_relative_np(condition, mutex, &time)
    #else
      var time = timespec()
      clock_gettime(CLOCK_MONOTONIC, &time)
      let total = UInt64(time.tv_nsec) + nanoseconds
      time.tv_sec += Int(total / 1_000_000_000)
      time.tv_nsec = Int(total % 1_000_000_000)
      pthread_cond_timedwait(condition, mutex, &time)
    #endif
  }

  package enum Wait<Answer> {
    case done(Answer)
    case forSignal
    case atMost(nanoseconds: UInt64)
  }
}

/// A thread of the operating system.
package enum WorkerThread {
  private final class Body {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }

  /// The size of a thread's stack, in bytes: the same on every system.
  private static let stackBytes = 1 << 20

  /// Starts a detached thread that runs the body once. Never waits.
  ///
  /// - Throws: the system's refusal: `EAGAIN` where the process or its user has reached its limit
  ///   of threads, or has no address space for a stack. The body is released then and never runs.
  package static func start(_ body: @escaping @Sendable () -> Void) throws(StorageError) {
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setstacksize(&attributes, stackBytes)
    pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    let context = Unmanaged.passRetained(Body(body)).toOpaque()
    #if canImport(Darwin)
      var thread: pthread_t?
    #else
      var thread = pthread_t()
    #endif
    let code = pthread_create(&thread, &attributes, runBody, context)
    guard code == 0 else {
      Unmanaged<Body>.fromOpaque(context).release()
      throw StorageError("start a thread", file: "", errno: Errno(rawValue: code))
    }
  }

  #if canImport(Darwin)
    private static let runBody:
      @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? =
        { context in
          Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
          return nil
        }
  #else
    private static let runBody:
      @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        if let context { Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run() }
        return nil
      }
  #endif
}
