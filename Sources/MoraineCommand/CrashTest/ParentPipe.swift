import Foundation
import SystemPackage

/// The pipe from the parent process, which sends the units of work.
///
/// The end of the pipe ends the worker, whatever the worker is doing. The parent closes the pipe
/// when it has all results; the kernel closes it when the parent dies, by SIGKILL too.
enum ParentPipe {
  static func lines() -> AsyncStream<String> {
    let (stream, continuation) = AsyncStream.makeStream(of: String.self)
    // A separate thread: a unit that hangs may block all threads of the pool.
    Thread.detachNewThread {
      // Not with the C library's streams: `exit` would wait for the stream that is read here.
      var reader = LineReader(.standardInput, limitBytes: 1 << 20)
      do {
        while case .bytes(let line) = try reader.read() {
          continuation.yield(String(decoding: line, as: UTF8.self))
        }
      } catch {
        Output.error("cannot read the work: \(error)")
      }
      // `_exit` waits for no lock that a hung unit may hold.
      _exit(0)
    }
    return stream
  }
}
