import Synchronization

/// What is left of the space of a ``MemoryStorage``.
final class MemorySpace: Sendable {
  private static let blockBytes = 4096
  private let freeBytes: Mutex<Int>

  /// What must be free when a file is created.
  let creationBytes: Int

  init(capacityBytes: Int, creationBytes: Int = 0) {
    self.creationBytes = creationBytes
    freeBytes = Mutex(capacityBytes)
  }

  /// Takes or gives back what a file's change of length needs.
  ///
  /// - Returns: false, and nothing is taken, when there is not enough.
  @discardableResult
  func change(from before: Int, to after: Int) -> Bool {
    let more = Self.blocks(after) - Self.blocks(before)
    return freeBytes.withLock { free in
      guard more <= free else { return false }
      free -= more
      return true
    }
  }

  /// In bytes.
  var free: Int { freeBytes.withLock { $0 } }

  private static func blocks(_ length: Int) -> Int {
    (length + blockBytes - 1) / blockBytes * blockBytes
  }
}
