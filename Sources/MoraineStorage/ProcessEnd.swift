import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// The end of this process in order: a return from `main`, or a call of `exit`. A signal, a trap or
/// `_exit` is another end.
package enum ProcessEnd {
  private static let bodies = Mutex<[@Sendable () -> Void]>([])
  /// The process that has registered its end.
  private static let owner: Int32 = {
    atexit { ProcessEnd.run() }
    return CurrentProcess.id
  }()

  /// Calls a body when the process ends in order, on the thread that ends it, while the other
  /// threads go on. A forked child does not call the bodies of its parent: it has none of its
  /// threads.
  package static func call(_ body: @escaping @Sendable () -> Void) {
    guard owner == CurrentProcess.id else { return }
    bodies.withLock { $0.append(body) }
  }

  private static func run() {
    guard owner == CurrentProcess.id else { return }
    for body in bodies.withLock({ $0 }) { body() }
  }
}
