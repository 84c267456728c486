import MoraineStorage
import Synchronization

/// The bytes of a file: those of now, and those that a power failure cannot take.
final class SimulatedContent: Sendable {
  private struct State {
    var synced: [UInt8] = []
    var lost = DiskMoment.LostPages()
    /// What was seen last, so that moments share the memory of what did not change.
    var seen: [UInt8] = []
  }

  /// Nil for a file that no name leads to any more; it stays as it was seen last.
  private let file: (any StorageFile)?
  private let state: Mutex<State>

  /// - Parameter synced: what the file holds and the disk has.
  init(_ file: any StorageFile, synced: [UInt8] = []) {
    self.file = file
    state = Mutex(State(synced: synced))
  }

  init(_ last: DiskMoment.Versions) {
    file = nil
    state = Mutex(State(synced: last.synced, lost: last.lost, seen: last.current))
  }

  /// Says of what it holds now what of it is safe.
  func restore(_ versions: DiskMoment.Versions) {
    state.withLock { ($0.synced, $0.lost) = (versions.synced, versions.lost) }
  }

  func synchronize() {
    let bytes = current()
    state.withLock { state in
      guard !state.lost.isEmpty else {
        state.synced = bytes
        return
      }
      var safe = bytes
      state.lost.dropped = state.lost.dropped.filter { Self.page($0.key, of: bytes) == $0.value }
      for page in state.lost.unwritten.union(state.lost.dropped.keys) {
        Self.copy(page, from: state.synced, to: &safe)
      }
      state.synced = safe
    }
  }

  /// A sync that fails as on Linux: what it should have written stays in the cache, marked as
  /// written.
  func dropUnsynced() {
    let bytes = current()
    state.withLock { state in
      for page in 0..<(bytes.count + CrashPolicy.pageBytes - 1) / CrashPolicy.pageBytes {
        let held = Self.page(page, of: bytes)
        let safe = Self.page(page, of: state.synced)
        guard held != safe else { continue }
        if safe.contains(where: { $0 != 0 }) {
          state.lost.dropped[page] = held
        } else {
          state.lost.unwritten.insert(page)
        }
      }
    }
  }

  /// A write makes pages dirty, whether it changes their bytes or not.
  func wasWritten(from offset: UInt64, count: Int) {
    guard count > 0 else { return }
    let first = Int(clamping: offset) / CrashPolicy.pageBytes
    let last = (Int(clamping: offset) + count - 1) / CrashPolicy.pageBytes
    state.withLock { state in
      if state.lost.dropped.isEmpty { return }
      for page in first...last { state.lost.dropped[page] = nil }
    }
  }

  /// Bytes after the end have no blocks any more; blocks that come there later are new.
  func wasTruncated(to lengthBytes: UInt64) {
    let end = Int(clamping: lengthBytes)
    let pageCount = (end + CrashPolicy.pageBytes - 1) / CrashPolicy.pageBytes
    state.withLock { state in
      if state.lost.isEmpty { return }
      state.lost.dropped = state.lost.dropped.filter { $0.key < pageCount }
      state.lost.unwritten = state.lost.unwritten.filter { $0 < pageCount }
    }
  }

  /// What it holds now, and what is safe.
  func versions() -> DiskMoment.Versions {
    let bytes = current()
    return state.withLock { state in
      if state.seen != bytes { state.seen = bytes }
      if state.synced == bytes { state.seen = state.synced }
      return DiskMoment.Versions(current: state.seen, synced: state.synced, lost: state.lost)
    }
  }

  /// The bytes that the disk has, past the cache.
  var syncedBytes: [UInt8] { state.withLock { $0.synced } }

  private func current() -> [UInt8] {
    guard let file else { return state.withLock { $0.seen } }
    do throws(StorageError) {
      let count = Int(clamping: try file.lengthBytes())
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
      defer { buffer.deallocate() }
      return [UInt8](buffer[..<(try file.read(into: buffer, at: 0))])
    } catch {
      fatalError("memory could not be read: \(error)")
    }
  }

  private static func page(_ number: Int, of bytes: [UInt8]) -> [UInt8] {
    let start = min(number * CrashPolicy.pageBytes, bytes.count)
    return Array(bytes[start..<min(start + CrashPolicy.pageBytes, bytes.count)])
  }

  private static func copy(_ page: Int, from source: [UInt8], to target: inout [UInt8]) {
    let start = page * CrashPolicy.pageBytes
    for place in start..<min(start + CrashPolicy.pageBytes, target.count) {
      target[place] = place < source.count ? source[place] : 0
    }
  }
}
