import MoraineStorage
import Synchronization

/// The names in a directory and the directory's own name: the present names, and those that survive
/// every power failure.
final class SimulatedNames: Sendable {
  private struct State {
    var current: [String: SimulatedContent] = [:]
    var synced: [String: SimulatedContent] = [:]
    /// The files that each name had since the last sync and has no more, the latest last; nil for
    /// times without a file. A power failure may keep the first of several changes without the
    /// others.
    var between: [String: [SimulatedContent?]] = [:]
    /// Whether the directory's own name is durable.
    var isNameSynced = false

    mutating func set(_ name: String, _ content: SimulatedContent?) {
      let before = current[name]
      if before !== content, before !== synced[name] {
        between[name, default: []].append(before)
      }
      current[name] = content
    }
  }

  private let state = Mutex(State())

  func content(_ name: String) -> SimulatedContent? { state.withLock { $0.current[name] } }

  func add(_ name: String, _ content: SimulatedContent) { state.withLock { $0.set(name, content) } }

  /// Changes nothing where both are names of one file, as POSIX demands.
  func rename(_ source: String, to target: String) {
    state.withLock { state in
      if state.current[source] === state.current[target] { return }
      state.set(target, state.current[source])
      state.set(source, nil)
    }
  }

  /// Gives a file a second name when the body, which does the same to the files themselves, returns
  /// true. No other call sees one without the other.
  func link(
    _ source: String, as target: String, _ body: () throws(StorageError) -> Bool
  ) throws(StorageError) -> Bool {
    try state.withLock { state throws(StorageError) in
      guard try body() else { return false }
      state.set(target, state.current[source])
      return true
    }
  }

  func remove(_ name: String) { state.withLock { $0.set(name, nil) } }

  func synchronize() {
    state.withLock { state in
      state.synced = state.current
      state.between = [:]
    }
  }

  func synchronizeName() { state.withLock { $0.isNameSynced = true } }

  /// Restores which names are durable, as they were at an earlier moment with the same names.
  func restore(_ directory: DiskMoment.Directory) {
    state.withLock { state in
      state.isNameSynced = directory.isSynced
      for name in directory.names {
        let content = state.current[name.name]
        if let current = name.current { content?.restore(current) }
        state.synced[name.name] = name.isSynced ? content : name.synced.map(SimulatedContent.init)
        if name.between.isEmpty { continue }
        state.between[name.name] = name.between.reversed().map { $0.map(SimulatedContent.init) }
      }
    }
  }

  /// The directory, with the present and the durable file of each name.
  ///
  /// No name changes while the bytes of the files are copied: otherwise another thread could
  /// replace a file and write to the next one, and the copy would have the old file beside the new
  /// bytes.
  func directory(at path: String) -> DiskMoment.Directory {
    state.withLock { Self.directory(at: path, $0) }
  }

  private static func directory(at path: String, _ state: State) -> DiskMoment.Directory {
    let names = Set(state.current.keys).union(state.synced.keys).union(state.between.keys).sorted()
    return DiskMoment.Directory(
      path: path, isSynced: state.isNameSynced,
      names: names.map { name in
        let (current, synced) = (state.current[name], state.synced[name])
        let between = state.between[name] ?? []
        let isSynced = current === synced && between.isEmpty
        return DiskMoment.Name(
          name: name, current: current?.versions(),
          between: between.reversed().map { $0?.versions() },
          synced: isSynced ? nil : synced?.versions(), isSynced: isSynced)
      })
  }
}
