import MoraineStorage
import Synchronization

/// The names in a directory: those of now, and those of its last sync.
final class SimulatedNames: Sendable {
  private struct State {
    var current: [String: SimulatedContent] = [:]
    var synced: [String: SimulatedContent] = [:]
  }

  private let state = Mutex(State())

  func content(_ name: String) -> SimulatedContent? { state.withLock { $0.current[name] } }

  func add(_ name: String, _ content: SimulatedContent) {
    state.withLock { $0.current[name] = content }
  }

  func rename(_ source: String, to target: String) {
    state.withLock { $0.current[target] = $0.current.removeValue(forKey: source) }
  }

  func remove(_ name: String) { state.withLock { $0.current[name] = nil } }

  func synchronize() { state.withLock { $0.synced = $0.current } }

  /// What a crash leaves: for each name, what it led to at the last sync, or what it leads to now.
  func survivors(
    _ choice: inout CrashChoice
  ) throws(StorageError) -> [(name: String, bytes: [UInt8])] {
    let now = state.withLock { $0 }
    var result: [(String, [UInt8])] = []
    for name in Set(now.current.keys).union(now.synced.keys).sorted() {
      let (current, synced) = (now.current[name], now.synced[name])
      let content = current === synced ? synced : choice.survives() ? current : synced
      if let content { result.append((name, try content.survivors(&choice))) }
    }
    return result
  }
}

/// The bytes of a file: those of now, and those of its last sync.
final class SimulatedContent: Sendable {
  private let file: any StorageFile
  private let synced = Mutex<[UInt8]>([])

  init(_ file: any StorageFile) {
    self.file = file
  }

  func synchronize() throws(StorageError) {
    let bytes = try current()
    synced.withLock { $0 = bytes }
  }

  func survivors(_ choice: inout CrashChoice) throws(StorageError) -> [UInt8] {
    let before = synced.withLock { $0 }
    return choice.merge(before, try current())
  }

  private func current() throws(StorageError) -> [UInt8] {
    let count = Int(clamping: try file.lengthBytes())
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 8)
    defer { buffer.deallocate() }
    return [UInt8](buffer[..<(try file.read(into: buffer, at: 0))])
  }
}
