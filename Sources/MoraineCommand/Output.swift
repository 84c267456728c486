import Foundation
import Synchronization
import SystemPackage

/// Standard output, gathered into large writes, and standard error, a line at a time.
enum Output {
  private static let bufferBytes = 64 << 10
  private static let buffer = Mutex<[UInt8]>([])

  /// Lets the body append what is to be printed.
  static func write(_ body: (inout [UInt8]) -> Void) throws(Failure) {
    try buffer.withLock { (pending) throws(Failure) in
      body(&pending)
      if pending.count >= bufferBytes { try drain(&pending) }
    }
  }

  static func line(_ text: String) throws(Failure) {
    try write { pending in
      pending.append(contentsOf: text.utf8)
      pending.append(UInt8(ascii: "\n"))
    }
  }

  /// Hands what is gathered to the operating system. The top level does so at the end.
  static func flush() throws(Failure) {
    try buffer.withLock { (pending) throws(Failure) in try drain(&pending) }
  }

  private static func drain(_ pending: inout [UInt8]) throws(Failure) {
    // Also after an error: what a closed pipe did not take, it will not take later.
    defer { pending.removeAll(keepingCapacity: true) }
    do {
      try FileDescriptor.standardOutput.writeAll(pending)
    } catch {
      if error as? Errno == .brokenPipe { throw .readerGone }
      throw Failure("write to standard output", error)
    }
  }

  /// Writes a line to standard error.
  static func note(_ message: String) { toTerminal(message + "\n") }

  /// Writes to standard error, without a line's end.
  static func toTerminal(_ text: String) {
    do {
      try FileDescriptor.standardError.writeAll(Array(text.utf8))
    } catch {
      // There is nowhere left to say so; the exit code still tells how it went.
    }
  }

  static func error(_ message: String) { note("moraine: \(message)") }
}
