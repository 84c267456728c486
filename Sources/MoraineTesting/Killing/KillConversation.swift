import Subprocess
import Synchronization
public import SystemPackage

/// What a script's check may ask the program.
public final class KillConversation {
  /// The process has ended, or a line of it had no end. The harness knows why; a check lets it
  /// pass.
  public struct Ended: Error {}

  /// The program's folder.
  public let folder: FilePath

  let control: ChildControl
  /// A line was longer than the limit.
  private(set) var hasOverlongLine = false
  /// When the first line came.
  private(set) var firstLine: ContinuousClock.Instant?

  private let writer: StandardInputWriter
  private var chunks: SubprocessOutputSequence.Iterator
  private let limitBytes: Int
  private var pending: [UInt8] = []
  /// Where the search for the next line feed goes on.
  private var searched = 0

  init(
    folder: FilePath, control: ChildControl, writer: StandardInputWriter,
    chunks: SubprocessOutputSequence.Iterator, limitBytes: Int
  ) {
    self.folder = folder
    self.control = control
    self.writer = writer
    self.chunks = chunks
    self.limitBytes = limitBytes
  }

  /// Sends lines, and returns the next line of output.
  ///
  /// - Throws: ``Ended``.
  public func ask(_ lines: String...) async throws -> String {
    await say(lines)
    guard let line = try await nextLine() else { throw Ended() }
    control.touch()
    return line
  }

  /// The next line of output, without its line feed; nil when there is none and will be none.
  public func hear() async throws -> String? {
    let line = try await nextLine()
    if line != nil { control.touch() }
    return line
  }

  /// Sends lines. What a process that has ended cannot take is dropped: its output tells how it
  /// ended.
  func say(_ lines: [String]) async {
    var text: [UInt8] = []
    for line in lines {
      text.append(contentsOf: line.utf8)
      text.append(UInt8(ascii: "\n"))
    }
    do {
      _ = try await writer.write(text)
    } catch {
      // The pipe is closed at its other end.
    }
  }

  /// Closes the program's input.
  func finish() async throws { try await writer.finish() }

  func nextLine() async throws -> String? {
    while true {
      if let end = pending[searched...].firstIndex(of: UInt8(ascii: "\n")) {
        let line = String(decoding: pending[..<end], as: UTF8.self)
        pending.removeSubrange(...end)
        searched = 0
        if firstLine == nil { firstLine = .now }
        return line
      }
      searched = pending.count
      guard pending.count <= limitBytes else {
        hasOverlongLine = true
        return nil
      }
      // What has no line feed at the end of the output is no line: the kill cut it off.
      guard let chunk = try await chunks.next(isolation: #isolation) else { return nil }
      chunk.withUnsafeBytes { pending.append(contentsOf: $0) }
    }
  }
}
