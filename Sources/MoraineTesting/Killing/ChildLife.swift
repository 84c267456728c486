import Subprocess
import Synchronization

/// What came of one process.
struct ChildLife<Ending> {
  var ending: Ending
  var status: TerminationStatus
  /// Why the harness killed it, if it did.
  var killReason: ChildControl.Reason?
  /// It closed its output, and then did not end.
  var isOverdue: Bool
  /// From its start to its first answer.
  var restart: Duration?
  var errorOutput: String

  /// Ended by the kill that was meant for it.
  var isKilled: Bool {
    if case .signaled = status { return killReason == .planned }
    return false
  }
}

/// The last lines of a process's standard error.
final class ErrorTail: Sendable {
  private static let limitBytes = 4096
  private let bytes = Mutex<[UInt8]>([])

  var text: String {
    String(decoding: bytes.withLock { $0.suffix(Self.limitBytes) }, as: UTF8.self)
  }

  /// Reads until the process closes it.
  func collect(_ chunks: SubprocessOutputSequence) async {
    do {
      for try await chunk in chunks {
        bytes.withLock { bytes in
          chunk.withUnsafeBytes { bytes.append(contentsOf: $0) }
          if bytes.count > 16 * Self.limitBytes {
            bytes.removeFirst(bytes.count - Self.limitBytes)
          }
        }
      }
    } catch {
      // What can be read of it helps; nothing depends on it.
    }
  }
}
