import Foundation
import Moraine
import SystemPackage
import Testing

/// A folder for one test's stores.
final class Ground {
  let folder: URL
  var path: FilePath { FilePath(folder.path) }

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(
      path: "TemporaryDirectory.documentation.\(UUID())", directoryHint: .isDirectory)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  deinit {
    do { try FileManager.default.removeItem(at: folder) } catch {
      Issue.record("\(folder.path) stays: \(error)")
    }
  }
}

/// Settings that name no store are in memory here, not in the folder of the user who runs the
/// tests.
let settingsAreInMemory: Void = {
  do { try PersistedStore.setDefault(.inMemory()) } catch {
    Issue.record("the default store of settings was already in use: \(error)")
  }
}()

struct User: Codable, Identifiable, Sendable {
  let id: Int
  var name: String
  var isHidden = false
  var isOverdue = true
}

enum Theme: String, Codable, Sendable { case light, dark }
