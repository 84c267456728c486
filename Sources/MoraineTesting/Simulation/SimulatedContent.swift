import MoraineStorage
import Synchronization

/// The bytes of a file: those that a read returns, and those that survive every power failure.
final class SimulatedContent: Sendable {
  private struct State {
    var synced: [UInt8] = []
    var lost = DiskMoment.LostPages()
    /// The bytes of the last moment, so that moments share the memory of unchanged files.
    var seen: [UInt8] = []
    /// Number of syncs that have begun.
    var begunCount = 0
    /// The number of the latest sync that has ended.
    var endedNumber = 0
  }

  /// A sync that has begun.
  struct BegunSync: Sendable {
    fileprivate let number: Int
    /// The bytes that survive every power failure once the sync has ended.
    fileprivate let bytes: [UInt8]
  }

  /// Nil for a file without a name; its bytes are then those of the last moment.
  private let file: (any StorageFile)?
  private let state: Mutex<State>

  /// - Parameter synced: the bytes that both the file and the disk have.
  init(_ file: any StorageFile, synced: [UInt8] = []) {
    self.file = file
    state = Mutex(State(synced: synced))
  }

  init(_ last: DiskMoment.Versions) {
    file = nil
    state = Mutex(State(synced: last.synced, lost: last.lost, seen: last.current))
  }

  /// Restores which bytes are durable, as they were at an earlier moment.
  func restore(_ versions: DiskMoment.Versions) {
    state.withLock { ($0.synced, $0.lost) = (versions.synced, versions.lost) }
  }

  /// Begins a sync. It covers the bytes that the file has now: no kernel promises to write pages
  /// that become dirty while the sync runs.
  func beginSync() -> BegunSync {
    // One lock covers number and bytes: a sync with a higher number has no older bytes.
    state.withLock { state in
      let bytes = file.map { Self.bytes(of: $0) } ?? state.seen
      state.begunCount += 1
      guard !state.lost.isEmpty else { return BegunSync(number: state.begunCount, bytes: bytes) }
      var safe = bytes
      state.lost.dropped = state.lost.dropped.filter { Self.page($0.key, of: bytes) == $0.value }
      for page in state.lost.unwritten.union(state.lost.dropped.keys) {
        Self.copy(page, from: state.synced, to: &safe)
      }
      return BegunSync(number: state.begunCount, bytes: safe)
    }
  }

  /// Makes the bytes durable that the sync covers. A truncation since is not durable yet.
  func endSync(_ begun: BegunSync) {
    state.withLock { state in
      // Of two syncs at the same time, the one that began first may end last.
      guard begun.number > state.endedNumber else { return }
      state.endedNumber = begun.number
      state.synced = begun.bytes
    }
  }

  /// A sync that fails as on Linux: the pages that it should have written stay in the cache, marked
  /// as written.
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

  /// A write makes its pages dirty, even if it does not change their bytes.
  func wasWritten(from offset: UInt64, count: Int) {
    guard count > 0 else { return }
    let first = Int(clamping: offset) / CrashPolicy.pageBytes
    let last = (Int(clamping: offset) + count - 1) / CrashPolicy.pageBytes
    state.withLock { state in
      if state.lost.dropped.isEmpty { return }
      for page in first...last { state.lost.dropped[page] = nil }
    }
  }

  /// A truncation frees the blocks after the end; a later write gets new blocks.
  func wasTruncated(to lengthBytes: UInt64) {
    let end = Int(clamping: lengthBytes)
    let pageCount = (end + CrashPolicy.pageBytes - 1) / CrashPolicy.pageBytes
    state.withLock { state in
      if state.lost.isEmpty { return }
      state.lost.dropped = state.lost.dropped.filter { $0.key < pageCount }
      state.lost.unwritten = state.lost.unwritten.filter { $0 < pageCount }
    }
  }

  /// The present and the durable bytes of the file.
  func versions() -> DiskMoment.Versions {
    let bytes = current()
    return state.withLock { state in
      if state.seen != bytes { state.seen = bytes }
      if state.synced == bytes { state.seen = state.synced }
      return DiskMoment.Versions(current: state.seen, synced: state.synced, lost: state.lost)
    }
  }

  /// The bytes on the disk, without those in the cache.
  var syncedBytes: [UInt8] { state.withLock { $0.synced } }

  private func current() -> [UInt8] {
    guard let file else { return state.withLock { $0.seen } }
    return Self.bytes(of: file)
  }

  private static func bytes(of file: any StorageFile) -> [UInt8] {
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
