import Foundation
import MoraineEngine
import Synchronization
import SystemPackage

/// The stores that this process has open by their place, so that all who name one share it.
final class StoreRegistry: Sendable {
  static let shared = StoreRegistry()

  private struct Entry {
    weak var store: Store?
  }

  private let stores = Mutex<[String: Entry]>([:])

  /// Opens it, unless somebody has. It goes with its last user, and what was written stays; who
  /// closes it as well spares the next opening the reading of the log's end.
  func store(
    at path: FilePath, _ sharing: Configuration.Sharing
  ) throws(StoreError) -> Store {
    // Under the lock: two who come at once must not both open it.
    let result: Result<Store, StoreError> = stores.withLock { stores in
      if let store = stores[path.string]?.store { return .success(store) }
      do throws(StoreError) {
        var configuration = Configuration()
        configuration.sharing = sharing
        let store = try Store(at: path, configuration: configuration)
        stores[path.string] = Entry(store: store)
        stores = stores.filter { $0.value.store != nil }
        return .success(store)
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }

  /// The store at a place, if it is open.
  func openStore(at path: FilePath) -> Store? { stores.withLock { $0[path.string]?.store } }

  /// Forgets a store that is closed.
  func remove(_ store: Store) {
    stores.withLock { stores in stores = stores.filter { $0.value.store !== store } }
  }

  /// Opens a store that is not open yet, and reads a keyspace of it on the way.
  ///
  /// - Throws: `.locked` when it is open: only the store itself can then say what it holds, and it
  ///   must be asked with `await`.
  func newStore(
    at path: FilePath, _ configuration: Configuration, reading keyspace: String
  ) throws(StoreError) -> (Store, KeyspaceContents) {
    let result: Result<(Store, KeyspaceContents), StoreError> = stores.withLock { stores in
      guard stores[path.string]?.store == nil else {
        return .failure(
          StoreError(
            .locked,
            "this process has the store open already; await PersistedStore(_:) with a keyspace of it",
            file: path.string))
      }
      do throws(StoreError) {
        let opened = try Store.opened(
          at: path, configuration: configuration, reading: keyspace)
        stores[path.string] = Entry(store: opened.store)
        return .success(opened)
      } catch {
        return .failure(error)
      }
    }
    return try result.get()
  }
}

/// Where the store of a directory and a filename is.
enum StorePlace {
  /// - Parameter directory: nil is the user's documents.
  static func path(_ directory: URL?, _ filename: String) throws(StoreError) -> FilePath {
    let directory = if let directory { directory } else { try documents() }
    guard directory.isFileURL else {
      throw StoreError(.io, "'\(directory)' is no directory on this machine")
    }
    let isName =
      !filename.isEmpty && filename != "." && filename != ".." && !filename.contains("/")
      && !filename.utf8.contains(0) && filename.utf8.count <= 240
    guard isName else {
      throw StoreError(.io, "'\(filename)' is no name for a file; give the directory by itself")
    }
    return FilePath(directory.standardizedFileURL.path).appending(filename + ".moraine")
  }

  private static func documents() throws(StoreError) -> URL {
    // `URL.documentsDirectory` is Apple's alone.
    let places = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)
    guard let first = places.first else {
      throw StoreError(.io, "this user has no documents directory; give one")
    }
    return first
  }
}
