import MoraineEngine
import Synchronization
import SystemPackage

/// The settings that this process has open, so that all who name a keyspace share them.
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

  /// An identifier may be another store's when the first is gone, but then its space is gone too:
  /// it holds its store.
  private struct Entry {
    weak var space: PersistedSpace?
  }

  private struct State {
    var spaces: [ID: Entry] = [:]
    /// Those that were opened here by a place. They stay open: a setting is written at any time,
    /// and a store that goes with its last user takes a moment for it.
    var opened: [String: PersistedSpace] = [:]
  }

  private let state = Mutex(State())

  func space(
    at path: FilePath, _ configuration: Configuration
  ) throws(StoreError) -> PersistedSpace {
    // Under the lock: of two who come at once, the second gets what the first has made.
    let result = state.withLock { state -> Result<PersistedSpace, StoreError> in
      if let space = state.opened[path.string] { return .success(space) }
      if let store = StoreRegistry.shared.openStore(at: path),
        let space = state.spaces[ID(Keyspace(store))]?.space
      {
        return .success(space)
      }
      do throws(StoreError) {
        let (keyspace, contents) = try open(path, configuration)
        let space = Self.insert(keyspace, contents, path.string, &state.spaces)
        state.opened[path.string] = space
        return .success(space)
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  /// Takes in a space that could be opened at last.
  func add(_ space: PersistedSpace, for keyspace: Keyspace) {
    state.withLock { $0.spaces[ID(keyspace)] = Entry(space: space) }
  }

  /// Forgets a space: whoever names its place next opens it anew.
  func remove(_ space: PersistedSpace) {
    state.withLock { state in
      state.spaces = state.spaces.filter { $0.value.space !== space }
      state.opened = state.opened.filter { $0.value !== space }
    }
    if let store = space.keyspace?.store { StoreRegistry.shared.remove(store) }
  }

  func space(in keyspace: Keyspace) async throws(StoreError) -> PersistedSpace {
    if let space = state.withLock({ $0.spaces[ID(keyspace)]?.space }) { return space }
    let contents = try await keyspace.contents()
    let place = keyspace.name.isEmpty ? "a given store" : "keyspace '\(keyspace.name)'"
    return insert(keyspace, contents, place)
  }

  /// - Returns: the one that is there already, if one is.
  func insert(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, _ place: String
  ) -> PersistedSpace {
    state.withLock { Self.insert(keyspace, contents, place, &$0.spaces) }
  }

  private static func insert(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, _ place: String,
    _ spaces: inout [ID: Entry]
  ) -> PersistedSpace {
    if let space = spaces[ID(keyspace)]?.space { return space }
    let space = PersistedSpace(keyspace, contents, place: place)
    spaces = spaces.filter { $0.value.space != nil }
    spaces[ID(keyspace)] = Entry(space: space)
    return space
  }

  /// Opens a store that nobody in this process has open.
  func open(
    _ path: FilePath, _ configuration: Configuration
  ) throws(StoreError) -> (Keyspace, KeyspaceContents) {
    let (store, contents) = try StoreRegistry.shared.newStore(at: path, configuration, reading: "")
    return (Keyspace(store), contents)
  }
}

extension Keyspace {
  /// The unnamed one.
  init(_ store: Store) {
    do throws(StoreError) { self = try store.keyspace(named: "") } catch {
      fatalError("the unnamed keyspace has a name that is too long: \(error)")
    }
  }
}
