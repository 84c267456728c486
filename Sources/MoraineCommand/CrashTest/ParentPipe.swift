import Foundation

/// The pipe from the process that hands out the work.
///
/// Its end is the worker's end, whatever the worker is at: the parent closes it when it has all results,
/// and the kernel when the parent has died of anything, SIGKILL included.
enum ParentPipe {
  static func lines() -> AsyncStream<String> {
    let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    // A thread of its own: a piece that hangs may hold all others.
    Thread.detachNewThread {
      while let line = readLine() { continuation.yield(line) }
      // Without waiting for anything that a hung piece may hold.
      _exit(0)
    }
    return stream
  }
}
