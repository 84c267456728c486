import Foundation
import SystemPackage

/// The pipe from the process that hands out the work.
///
/// Its end is the worker's end, whatever the worker is at: the parent closes it when it has all
/// results, and the kernel when the parent has died of anything, SIGKILL included.
enum ParentPipe {
  static func lines() -> AsyncStream<String> {
    let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    // A thread of its own: a piece that hangs may hold all others.
    Thread.detachNewThread {
      // Not by the C library's streams: `exit` would wait for the one that waits here.
      var reader = LineReader(.standardInput, limitBytes: 1 << 20)
      do {
        while case .bytes(let line) = try reader.read() {
          continuation.yield(String(decoding: line, as: UTF8.self))
        }
      } catch {
        Output.error("cannot read the work: \(error)")
      }
      // Without waiting for anything that a hung piece may hold.
      _exit(0)
    }
    return stream
  }
}
