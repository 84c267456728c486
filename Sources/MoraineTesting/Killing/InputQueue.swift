#if Command
  import Subprocess
  import Synchronization

  /// Writes lines to a program while another task reads the program's answers: a program whose
  /// answers are not read stops reading, so the task that reads must not wait for a write.
  final class InputQueue: Sendable {
    private struct Message {
      var text: [UInt8]
      /// Microseconds from the end of the write to the kill; nil for no kill.
      var pause: Int?
    }

    private let writer: StandardInputWriter
    private let control: ChildControl
    private let messages: AsyncStream<Message>
    private let messagesEnd: AsyncStream<Message>.Continuation
    /// Ends when the input is closed.
    private let closing: AsyncStream<Void>
    private let closingEnd: AsyncStream<Void>.Continuation
    /// The error of closing the input.
    private let failure = Mutex<(any Error)?>(nil)

    init(_ writer: StandardInputWriter, _ control: ChildControl) {
      self.writer = writer
      self.control = control
      (messages, messagesEnd) = AsyncStream.makeStream()
      (closing, closingEnd) = AsyncStream.makeStream()
    }

    /// Sends lines without waiting for the program to read them, and then plans a kill. Lines that
    /// a process which has ended cannot receive are dropped: its output says how it ended.
    ///
    /// - Parameter pause: microseconds from the end of the write to the kill; nil for no kill.
    func send(_ lines: [String], killAfterMicroseconds pause: Int?) {
      var text: [UInt8] = []
      for line in lines {
        text.append(contentsOf: line.utf8)
        text.append(UInt8(ascii: "\n"))
      }
      messagesEnd.yield(Message(text: text, pause: pause))
    }

    /// Writes what is sent, until ``close()`` is called. Then closes the input.
    func write() async {
      for await message in messages {
        do { _ = try await writer.write(message.text) } catch {
          // The process has closed the other end of the pipe.
        }
        if let pause = message.pause { control.kill(afterMicroseconds: pause) }
      }
      // Here no write is under way: the writer must not be closed beside one.
      do { try await writer.finish() } catch { failure.withLock { $0 = error } }
      closingEnd.finish()
    }

    /// Closes the program's input after everything was written that was sent.
    func close() async throws {
      messagesEnd.finish()
      for await _ in closing {}
      if let error = failure.withLock({ $0 }) { throw error }
    }
  }
#endif
