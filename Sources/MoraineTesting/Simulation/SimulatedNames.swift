import MoraineStorage
import Synchronization

/// The names in a directory and the directory's own name: the present names, and those that survive
/// every power failure.
final class SimulatedNames: Sendable {
  /// A file that a name had until a change.
  private struct Former {
    /// Number of the change.
    let change: Int
    /// Nil for a time without a file.
    let file: SimulatedContent?
  }

  private struct State {
    var current: [String: SimulatedContent] = [:]
    var synced: [String: SimulatedContent] = [:]
    /// The files that each name had since the last sync began and has no more, the latest last. A
    /// power failure may keep the first of several changes without the others.
    var between: [String: [Former]] = [:]
    /// Number of changes of names so far.
    var changeCount = 0
    /// Number of changes before the sync began that made `synced` durable.
    var syncedCount = 0
    /// Whether the directory's own name is durable.
    var isNameSynced = false

    mutating func set(_ name: String, _ content: SimulatedContent?) {
      let before = current[name]
      changeCount += 1
      if before !== content {
        between[name, default: []].append(Former(change: changeCount, file: before))
      }
      current[name] = content
    }

    /// The files of `between` that are not the durable one.
    func formerFiles(of name: String) -> [SimulatedContent?] {
      let durable = synced[name]
      return (between[name] ?? []).map { $0.file }.filter { $0 !== durable }
    }
  }

  /// A sync that has begun.
  struct BegunSync: Sendable {
    /// The names that survive every power failure once the sync has ended.
    fileprivate let names: [String: SimulatedContent]
    fileprivate let changeCount: Int
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

  /// Begins a sync, which covers the names as they are now.
  func beginSync() -> BegunSync {
    state.withLock { BegunSync(names: $0.current, changeCount: $0.changeCount) }
  }

  /// Makes the names durable that the sync covers.
  func endSync(_ begun: BegunSync) {
    state.withLock { state in
      // Of two syncs at the same time, the one that began first may end last.
      guard begun.changeCount >= state.syncedCount else { return }
      state.syncedCount = begun.changeCount
      state.synced = begun.names
      for (name, files) in state.between {
        let later = files.filter { $0.change > begun.changeCount }
        state.between[name] = later.isEmpty ? nil : later
      }
    }
  }

  func synchronize() { endSync(beginSync()) }

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
        state.between[name.name] = name.between.reversed().map { versions in
          Former(change: 0, file: versions.map(SimulatedContent.init))
        }
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
        let between = state.formerFiles(of: name)
        let isSynced = current === synced && between.isEmpty
        return DiskMoment.Name(
          name: name, current: current?.versions(),
          between: between.reversed().map { $0?.versions() },
          synced: isSynced ? nil : synced?.versions(), isSynced: isSynced)
      })
  }
}
