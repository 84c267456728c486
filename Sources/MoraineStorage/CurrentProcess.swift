import CMoraineShims

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// This process and its relation to other processes.
package enum CurrentProcess {
  /// Returns whether a process with this number exists, as far as this process can see.
  package static func canSee(_ id: Int32) -> Bool {
    id > 0 && (kill(id, 0) == 0 || errno == EPERM)
  }

  package static var id: Int32 { getpid() }

  /// A number that rises in the child of every fork since ``watchForks()``.
  package static var forkGeneration: UInt64 { moraine_fork_generation() }

  package static func watchForks() { moraine_watch_forks() }

  /// Returns a variable of the environment; nil when it is not set.
  package static func environment(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }
}

/// The kernel's generator of random numbers.
package enum SystemRandom {
  package static func number() -> UInt64 {
    var generator = SystemRandomNumberGenerator()
    return generator.next()
  }
}
