import Foundation
import Synchronization
import SystemPackage

/// Standard output, buffered into large writes, and standard error, written line by line.
enum Output {
  private static let bufferBytes = 64 << 10
  private static let buffer = Mutex<[UInt8]>([])

  /// Calls the body to append output to the buffer.
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

  /// Writes the buffer to standard output. The main function calls it at the end.
  static func flush() throws(Failure) {
    try buffer.withLock { (pending) throws(Failure) in try drain(&pending) }
  }

  private static func drain(_ pending: inout [UInt8]) throws(Failure) {
    // Also after an error: a closed pipe would not accept these bytes later either.
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

  /// Writes to standard error, without a newline.
  static func toTerminal(_ text: String) {
    do {
      try FileDescriptor.standardError.writeAll(Array(text.utf8))
    } catch {
      // This error cannot be reported anywhere. The exit code still shows the outcome.
    }
  }

  static func error(_ message: String) { note("moraine: \(message)") }
}
