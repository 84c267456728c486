import Foundation
import MoraineEngine
import Synchronization
import SystemPackage

/// The spaces that this process has open: all properties for one keyspace share one space.
final class PersistedSpaces: Sendable {
  static let shared = PersistedSpaces()

  private struct ID: Hashable {
    let store: ObjectIdentifier
    let keyspace: String

    init(_ keyspace: Keyspace) {
      store = ObjectIdentifier(keyspace.store)
      self.keyspace = keyspace.name
    }
  }

  /// A weak reference to a space. A space keeps its store alive: when a new store has the
  /// identifier of a released one, the space of the released store is released too.
  private struct Entry {
    weak var space: PersistedSpace?
  }

  private struct State {
    var spaces: [ID: Entry] = [:]
    /// Spaces that were opened here by a place. They stay open: a setting may be written at any
    /// time, and releasing a store with its last user takes a moment.
    var opened: [PersistedSpace] = []
    /// Spaces that were closed. Properties may still use them, and have values that are not saved.
    var closed: [Entry] = []
    /// Spaces with settings that are not saved. The next set in the keyspace tries to save them
    /// again, and the end of the process reports them, so they must outlive their properties. A
    /// space whose store is over, and can be opened again, stays until a reload or the end of the
    /// process.
    var unsaved: [ObjectIdentifier: PersistedSpace] = [:]

    mutating func insert(
      _ keyspace: Keyspace, _ contents: KeyspaceContents, _ place: String,
      isTransient: Bool = false, _ source: PersistedSpace.Source?
    ) -> PersistedSpace {
      if let space = spaces[ID(keyspace)]?.space { return space }
      let space = PersistedSpace(
        keyspace, contents, place: place, source: source, isTransient: isTransient)
      spaces = spaces.filter { $0.value.space != nil }
      spaces[ID(keyspace)] = Entry(space: space)
      return space
    }
  }

  private let state = Mutex(State())

  /// Returns the space of the store at a path, and opens the store if necessary.
  ///
  /// - Throws: `.locked` when this process has the store open for another purpose, or in another
  ///   way than requested. Also the errors of opening a store.
  func space(at path: FilePath, _ request: StoreRequest) throws(StoreError) -> PersistedSpace {
    try StoreRegistry.shared.atPlace(path) { (place) throws(StoreError) in
      if let store = try place.openStore(request) {
        if let space = known(Keyspace(store)) { return space }
        throw StoreError(
          .locked,
          "this process has the store open already; await PersistedStore(_:) with a keyspace of it",
          file: path.string)
      }
      let (store, contents) = try place.newStore(request.configuration, reading: "")
      return state.withLock { state in
        let space = state.insert(Keyspace(store), contents, path.string) { (path, request) }
        state.opened.removeAll { $0.isOver }
        state.opened.append(space)
        return space
      }
    }
  }

  private func known(_ keyspace: Keyspace) -> PersistedSpace? {
    state.withLock { $0.spaces[ID(keyspace)]?.space }
  }

  /// Adds a space whose store was opened by a later attempt, or was replaced by another store. If
  /// another space has the keyspace by then, properties that are created later share that one.
  func add(_ space: PersistedSpace, for keyspace: Keyspace) {
    state.withLock { state in
      state.spaces = state.spaces.filter { $0.value.space != nil && $0.value.space !== space }
      if state.spaces[ID(keyspace)] == nil { state.spaces[ID(keyspace)] = Entry(space: space) }
      if !state.opened.contains(where: { $0 === space }) { state.opened.append(space) }
    }
  }

  /// Removes a space whose store is closed.
  func remove(_ space: PersistedSpace) {
    state.withLock { state in
      state.spaces = state.spaces.filter { $0.value.space !== space }
      state.opened.removeAll { $0 === space }
      state.closed.removeAll { $0.space == nil || $0.space === space }
      state.closed.append(Entry(space: space))
    }
  }

  func space(in keyspace: Keyspace) async throws(StoreError) -> PersistedSpace {
    if let space = known(keyspace) { return space }
    let contents = try await keyspace.contents()
    let place = keyspace.name.isEmpty ? "a given store" : "keyspace '\(keyspace.name)'"
    return insert(keyspace, contents, place)
  }

  /// Adds a space for a keyspace.
  ///
  /// - Returns: the existing space of the keyspace if there is one.
  func insert(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, _ place: String, isTransient: Bool = false
  ) -> PersistedSpace {
    state.withLock { $0.insert(keyspace, contents, place, isTransient: isTransient, nil) }
  }

  /// Keeps a space if it has settings that are not saved, and otherwise lets it go. Called whenever
  /// an attempt to save has ended, and when stored values may have replaced unsaved ones.
  ///
  /// Lock order: this lock, then the space's lock or that of a box. The look at the boxes and its
  /// consequence are one step, so that the latest of several calls counts.
  func keepWhileUnsaved(_ space: PersistedSpace) {
    if space.isTransient { return }
    state.withLock { state in
      let isLasting = space.hasUnsaved && space.mayBeOpen
      state.unsaved[ObjectIdentifier(space)] = isLasting ? space : nil
    }
  }
}

// The end of the process in order. A set is visible at once and written in the background, so the
// process may end before the write.
extension PersistedSpaces {
  /// The longest time for which the end of the process waits for settings.
  private static let longestEndNanoseconds: UInt64 = 5_000_000_000

  private static let isWatching: Bool = {
    BoundedWait.atEndOfProcess { PersistedSpaces.shared.end() }
    return true
  }()

  /// Lets the end of this process wait for settings that are not saved.
  func watchTheEnd() { _ = Self.isWatching }

  /// Saves the settings that are not saved, and reports those that cannot be.
  private func end() {
    let spaces = state.withLock { state -> [PersistedSpace] in
      let entries = Array(state.spaces.values) + state.closed
      return entries.compactMap(\.space) + state.opened + Array(state.unsaved.values)
    }
    var seen: Set<ObjectIdentifier> = []
    let unsaved = spaces.filter {
      seen.insert(ObjectIdentifier($0)).inserted && !$0.unsavedNames.isEmpty
    }
    if unsaved.isEmpty { return }
    let failures = Mutex<[String]>([])
    let hasEnded = BoundedWait.run(atMost: Self.longestEndNanoseconds) {
      // One store that does not answer must not take the time of the others.
      await withTaskGroup(of: StoreError?.self) { group in
        for space in unsaved { group.addTask { await space.save() } }
        for await case let error? in group { failures.withLock { $0.append("\(error)") } }
      }
    }
    var lines = failures.withLock { $0 }
    if !hasEnded { lines.append("the store did not answer in time") }
    for space in unsaved where !space.unsavedNames.isEmpty {
      lines.append("not saved in \(space.place): " + space.unsavedNames.joined(separator: ", "))
    }
    let text = lines.map { "moraine: at the end of the process: \($0)\n" }.joined()
    // A process whose standard error is a closed pipe keeps its exit code.
    let handler = signal(SIGPIPE, SIG_IGN)
    do { try FileHandle.standardError.write(contentsOf: Data(text.utf8)) } catch {
      // This error cannot be reported anywhere.
    }
    signal(SIGPIPE, handler)
  }
}

extension PersistedSpace {
  /// Saves the settings that are not saved, and waits for the disk.
  ///
  /// - Returns: the error, if there is one.
  fileprivate func save() async -> StoreError? {
    do throws(StoreError) {
      try await attempt()
      try await sync()
      return nil
    } catch {
      return error
    }
  }
}

extension Keyspace {
  /// Creates the unnamed keyspace of a store.
  init(_ store: Store) {
    do throws(StoreError) { self = try store.keyspace(named: "") } catch {
      fatalError("the unnamed keyspace has a name that is too long: \(error)")
    }
  }
}
