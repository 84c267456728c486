#if Command
  import Subprocess
  import Synchronization
  public import SystemPackage

  /// The questions that a script's check may ask the program.
  public final class KillConversation {
    /// The process has ended, or one of its lines did not end. The harness knows the reason; a
    /// check does not catch this error.
    public struct Ended: Error {}

    /// Folder of the program.
    public let folder: FilePath

    let control: ChildControl
    /// Whether a line was longer than the limit.
    private(set) var hasOverlongLine = false
    /// Time at which the first line arrived.
    private(set) var firstLine: ContinuousClock.Instant?

    private let input: InputQueue
    private var chunks: SubprocessOutputSequence.Iterator
    private let limitBytes: Int
    private var pending: [UInt8] = []
    /// Position from which the search for the next line feed continues.
    private var searched = 0

    init(
      folder: FilePath, control: ChildControl, input: InputQueue,
      chunks: SubprocessOutputSequence.Iterator, limitBytes: Int
    ) {
      self.folder = folder
      self.control = control
      self.input = input
      self.chunks = chunks
      self.limitBytes = limitBytes
    }

    /// Sends lines, and returns the next line of output.
    ///
    /// - Throws: ``Ended``.
    public func ask(_ lines: String...) async throws -> String {
      say(lines)
      guard let line = try await readLine() else { throw Ended() }
      control.touch()
      return line
    }

    /// Returns the next line of output, without its line feed; nil at the end of the output.
    public func nextLine() async throws -> String? {
      let line = try await readLine()
      if line != nil { control.touch() }
      return line
    }

    /// Sends lines, and then plans a kill. See ``InputQueue/send(_:killAfterMicroseconds:)``.
    func say(_ lines: [String], killAfterMicroseconds pause: Int? = nil) {
      input.send(lines, killAfterMicroseconds: pause)
    }

    /// Closes the program's input after everything was written that was said.
    func finish() async throws { try await input.close() }

    func readLine() async throws -> String? {
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
        // Text without a line feed at the end of the output is not a line: the kill interrupted it.
        guard let chunk = try await chunks.next(isolation: #isolation) else { return nil }
        chunk.withUnsafeBytes { pending.append(contentsOf: $0) }
      }
    }
  }
#endif
