import CMoraineShims

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// Writes to a file of the real disk: inotify on Linux, kqueue on Apple, where it was never run.
final class DiskEvents: FileEvents {
  private let watch: CInt
  private let other: CInt

  /// Nil where the system has no such thing, or none to give.
  init?(directory: CInt, name: String) {
    var other: CInt = -1
    let watch = moraine_watch(directory, name, &other)
    guard watch >= 0 else { return nil }
    self.watch = watch
    self.other = other
  }

  deinit {
    close(watch)
    close(other)
  }

  func wait(atMostMilliseconds limit: Int) { moraine_watch_wait(watch, other, CInt(limit)) }

  func interrupt() { moraine_watch_interrupt(watch, other) }
}
