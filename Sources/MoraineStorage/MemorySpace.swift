import Synchronization

/// The free space of a ``MemoryStorage``.
final class MemorySpace: Sendable {
  private static let blockBytes = 4096
  private let freeBytes: Mutex<Int>

  /// The number of bytes that must be free when a file is created.
  let creationBytes: Int

  init(capacityBytes: Int, creationBytes: Int = 0) {
    self.creationBytes = creationBytes
    freeBytes = Mutex(capacityBytes)
  }

  /// Reserves or releases the space for a file's change of length.
  ///
  /// - Returns: false when the space does not suffice; nothing has changed then.
  @discardableResult
  func change(from before: Int, to after: Int) -> Bool {
    let more = Self.blocks(after) - Self.blocks(before)
    return freeBytes.withLock { free in
      guard more <= free else { return false }
      free -= more
      return true
    }
  }

  /// The free space, in bytes.
  var free: Int { freeBytes.withLock { $0 } }

  private static func blocks(_ length: Int) -> Int {
    (length + blockBytes - 1) / blockBytes * blockBytes
  }
}
