public import Foundation
import MoraineEngine
import Synchronization
import SystemPackage

extension PersistedStore {
  private static let chosen = Mutex<PersistedStore?>(nil)

  /// Environment variable with the directory of the default store, or "memory". It is read in a
  /// process that chooses no default store.
  private static let variable = "MORAINE_SETTINGS"

  /// The store of all persisted values that name no store: the one that was chosen, or else
  /// `settings.moraine` in ``defaultDirectory``.
  ///
  /// If the store was closed, or its files were replaced, it is opened again for values that are
  /// created later.
  ///
  /// If the store cannot be opened, every value in it is its default and cannot be set, and
  /// ``PersistedProjection/error`` has the reason; ``PersistedProjection/reload()`` tries again.
  public static var `default`: PersistedStore {
    chosen.withLock { chosen in
      if let chosen, !chosen.space.isOver { return chosen }
      // A store that was closed, or whose files were replaced, is opened again at its place.
      let store = chosen.map(reopened) ?? opened()
      chosen = store
      return store
    }
  }

  private static func reopened(_ store: PersistedStore) -> PersistedStore {
    guard let source = store.space.source else { return store }
    do throws(StoreError) {
      let (path, request) = try source()
      return PersistedStore(try PersistedSpaces.shared.space(at: path, request))
    } catch {
      return PersistedStore(PersistedSpace(error, place: store.space.place, source: source))
    }
  }

  /// Chooses the default store. Call this at the start of the program, before any value uses the
  /// default store.
  ///
  /// - Throws: `.locked` when another store is the default already.
  public static func setDefault(_ store: PersistedStore) throws(StoreError) {
    let isNew = chosen.withLock { chosen in
      guard chosen.map({ $0.space === store.space || $0.space.isOver }) ?? true else {
        return false
      }
      chosen = store
      return true
    }
    if !isNew {
      throw StoreError(
        .locked,
        "the default store of settings is in use; set it before the first setting is created")
    }
  }

  /// The directory of this program in the user's application support directory, or in
  /// `XDG_DATA_HOME`.
  ///
  /// Its name is the bundle's identifier, or the name of the program.
  public static var defaultDirectory: URL {
    get throws(StoreError) { try defaultDirectory(creating: false) }
  }

  static func defaultDirectory(creating: Bool) throws(StoreError) -> URL {
    let manager = FileManager.default
    guard let support = manager.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
    else {
      throw StoreError(.invalidArgument, "this user has no application support directory; pass one")
    }
    // Without this folder all programs of a user would share one file.
    let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
    let folder = support.appendingPathComponent(program, isDirectory: true)
    if creating {
      do { try manager.createDirectory(at: folder, withIntermediateDirectories: true) } catch {
        throw StoreError(.io, "the directory cannot be created: \(error)", file: folder.path)
      }
    }
    return folder
  }

  private static func opened() -> PersistedStore {
    let place = ProcessInfo.processInfo.environment[variable] ?? ""
    if place == "memory" { return inMemory() }
    let directory = place.isEmpty ? nil : URL(fileURLWithPath: place, isDirectory: true)
    do throws(StoreError) {
      return try PersistedStore(directory: directory)
    } catch {
      let source: PersistedSpace.Source = { () throws(StoreError) in
        let folder = if let directory { directory } else { try defaultDirectory(creating: true) }
        return (try StorePlace.path(folder, "settings"), request(nil))
      }
      return PersistedStore(
        PersistedSpace(error, place: "the default settings", source: source))
    }
  }
}
