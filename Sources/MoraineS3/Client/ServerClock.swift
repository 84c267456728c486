#if S3
  import MoraineStorage
  import Synchronization

  /// The time of a server, as far as it is known: that of this machine until an answer has
  /// another one.
  final class ServerClock: Sendable {
    /// The server's time less this machine's, in milliseconds.
    private let offset = Atomic<Int64>(0)

    /// The time of day, in milliseconds since the beginning of 1970.
    var milliseconds: Int64 {
      Int64(SystemClock.wallMilliseconds()) + offset.load(ordering: .relaxed)
    }

    /// Takes over a time that the server has named now.
    func adopt(_ milliseconds: Int64) {
      offset.store(milliseconds - Int64(SystemClock.wallMilliseconds()), ordering: .relaxed)
    }
  }
#endif
