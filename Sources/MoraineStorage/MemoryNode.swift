import Synchronization
import SystemPackage

/// The bytes and the lock of a file in memory, which all its openings share.
///
/// Calls exclude each other. Writes through a mapping run beside the calls, as with a mapped file
/// of the disk. The engine ensures that no call reads those bytes at the same time.
///
/// Bytes between the length and the end of the memory are zero, so that extending costs nothing.
final class MemoryNode: Sendable {
  private struct Contents {
    var memory: ZeroedMemory?
    var capacity = 0
    var length = 0
    /// Whether the file was mapped. A mapping holds the address, so the memory stays in place.
    var isMapped = false
    /// The number of times that a call has changed the file.
    var changes: UInt64 = 0
    var exclusiveHolder: ObjectIdentifier?
    var sharedHolders: Set<ObjectIdentifier> = []

    /// Returns false when the memory would have to move but is mapped, or when the system has no
    /// memory.
    mutating func reserve(_ needed: Int, exactly: Bool = false) -> Bool {
      guard needed > capacity else { return true }
      guard !isMapped else { return false }
      let newCapacity = exactly ? needed : max(needed, capacity * 2, 4096)
      let larger: ZeroedMemory
      do throws(StorageError) {
        larger = try ZeroedMemory(for: "a file in memory", byteCount: newCapacity)
      } catch {
        return false
      }
      if let memory {
        larger.base.copyMemory(from: memory.base, byteCount: length)
        memory.deallocate()
      }
      memory = larger
      capacity = newCapacity
      return true
    }
  }

  /// The last number that was assigned to a file.
  private static let lastNumber = Atomic<UInt64>(0)

  private let contents = Mutex(Contents())
  private let space: MemorySpace
  /// The file's number. No other file of the process ever has the same one.
  private let number = lastNumber.add(1, ordering: .relaxed).newValue

  init(in space: MemorySpace) {
    self.space = space
  }

  deinit {
    contents.withLock { contents in
      contents.memory?.deallocate()
      space.change(from: contents.length, to: 0)
    }
  }

  var lengthBytes: Int { contents.withLock { $0.length } }

  var stamp: FileStamp {
    contents.withLock { contents in
      FileStamp(
        identity: FileIdentity(device: 0, inode: number), lengthBytes: UInt64(contents.length),
        changed: contents.changes)
    }
  }

  func read(into target: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    contents.withLock { contents in
      let count = min(target.count, contents.length - offset)
      guard count > 0, let memory = contents.memory, let start = target.baseAddress else {
        return 0
      }
      start.copyMemory(from: memory.base + offset, byteCount: count)
      return count
    }
  }

  /// - Returns: the error, or nil when all bytes are written.
  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Errno? {
    guard let source = bytes.baseAddress, bytes.count > 0 else { return nil }
    return contents.withLock { contents in
      let end = offset + bytes.count
      if let refusal = grow(&contents, to: end) { return refusal }
      guard let memory = contents.memory else { return .noMemory }
      (memory.base + offset).copyMemory(from: source, byteCount: bytes.count)
      contents.changes += 1
      return nil
    }
  }

  /// - Returns: as ``write(_:at:)``.
  func extend(to end: Int) -> Errno? {
    contents.withLock { grow(&$0, to: end) }
  }

  private func grow(_ contents: inout Contents, to end: Int) -> Errno? {
    let length = max(contents.length, end)
    guard space.change(from: contents.length, to: length) else { return .noSpace }
    guard contents.reserve(end) else {
      space.change(from: length, to: contents.length)
      return .noMemory
    }
    contents.length = length
    return nil
  }

  /// - Returns: as ``write(_:at:)``.
  func truncate(to length: Int) -> Errno? {
    contents.withLock { contents in
      if length > contents.length { return grow(&contents, to: length) }
      if let memory = contents.memory, length < contents.length {
        let cut = UnsafeMutableRawBufferPointer(
          start: memory.base + length, count: contents.length - length)
        cut.initializeMemory(as: UInt8.self, repeating: 0)
      }
      space.change(from: contents.length, to: length)
      contents.length = length
      contents.changes += 1
      return nil
    }
  }

  func map(lengthBytes: Int) -> ZeroedMemory? {
    contents.withLock { contents in
      let needed = max(lengthBytes, contents.length)
      guard contents.reserve(needed, exactly: true) else { return nil }
      contents.isMapped = true
      return contents.memory
    }
  }

  func tryLock(_ holder: ObjectIdentifier, shared: Bool) -> Bool {
    contents.withLock { contents in
      guard contents.exclusiveHolder == nil || contents.exclusiveHolder == holder else {
        return false
      }
      if shared {
        contents.exclusiveHolder = nil
        contents.sharedHolders.insert(holder)
        return true
      }
      guard contents.sharedHolders.subtracting([holder]).isEmpty else { return false }
      contents.sharedHolders = []
      contents.exclusiveHolder = holder
      return true
    }
  }

  func unlock(_ holder: ObjectIdentifier) {
    contents.withLock { contents in
      if contents.exclusiveHolder == holder { contents.exclusiveHolder = nil }
      contents.sharedHolders.remove(holder)
    }
  }
}
