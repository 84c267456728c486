public import Foundation
import MoraineEngine
import Synchronization
import SystemPackage

extension PersistedStore {
  private static let chosen = Mutex<PersistedStore?>(nil)

  /// Names the directory of the default store, or "memory", in a process that chooses none.
  private static let variable = "MORAINE_SETTINGS"

  /// The store of all persisted values that name none: the one that was chosen, or else
  /// `settings.moraine` in ``defaultDirectory``.
  ///
  /// One that was closed, or whose files were replaced, is opened again for values that are made
  /// later.
  ///
  /// When it cannot be opened, every value in it is its default, cannot be set, and says why in
  /// ``PersistedProjection/error``; ``PersistedProjection/reload()`` tries again.
  public static var `default`: PersistedStore {
    chosen.withLock { chosen in
      if let chosen, !chosen.space.isOver { return chosen }
      // One that was closed, or whose files were replaced, is opened again where it was.
      let store = chosen.map(reopened) ?? opened()
      chosen = store
      return store
    }
  }

  private static func reopened(_ store: PersistedStore) -> PersistedStore {
    guard let source = store.space.source else { return store }
    do throws(StoreError) {
      let (path, wish) = try source()
      return PersistedStore(try PersistedSpaces.shared.space(at: path, wish))
    } catch {
      return PersistedStore(PersistedSpace(error, place: store.space.place, source: source))
    }
  }

  /// Chooses the default store, before anything uses it: at the beginning of the program.
  ///
  /// - Throws: `.locked` when another one is the default already.
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
        .locked, "the default store of settings is in use; choose it before any value is made")
    }
  }

  /// A folder of this program's own in the user's application support, or `XDG_DATA_HOME`.
  ///
  /// Its name is the bundle's identifier, or the name of the program.
  public static var defaultDirectory: URL {
    get throws(StoreError) { try defaultDirectory(creating: false) }
  }

  static func defaultDirectory(creating: Bool) throws(StoreError) -> URL {
    let manager = FileManager.default
    guard let support = manager.urls(for: .applicationSupportDirectory, in: .userDomainMask).first
    else {
      throw StoreError(.invalidArgument, "this user has no application support directory; give one")
    }
    // Without it all programs of a user would share one file.
    let program = Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
    let folder = support.appendingPathComponent(program, isDirectory: true)
    if creating {
      do { try manager.createDirectory(at: folder, withIntermediateDirectories: true) } catch {
        throw StoreError(.io, "the directory cannot be made: \(error)", file: folder.path)
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
        return (try StorePlace.path(folder, "settings"), wish(nil))
      }
      return PersistedStore(
        PersistedSpace(error, place: "the default settings", source: source))
    }
  }
}
