import Foundation
import Moraine
import MoraineArchive
import SystemPackage

/// Replaces a store that is older than its archive, or went on by itself, with the archive's newest
/// state. The directory is kept under another name, so that no operation is lost.
///
/// The archive is restored beside the directory first, so a failure changes nothing. Then two
/// renames follow. When the program is killed between them, the store's directory is missing, and
/// both others exist.
struct Adoption {
  let directory: String

  /// - Returns: the new name of the directory.
  func run(_ archive: ArchivePlace) async throws -> String {
    let path = URL(fileURLWithPath: directory).standardizedFileURL.path
    let (restored, branch) = (path + ".adopting", freeName(path + ".branch-"))
    let hasLeftover = FileManager.default.fileExists(atPath: restored)
    do {
      // What a killed restore has left is completed; a store that is complete is refused.
      try await archive.open().restore(to: FilePath(restored))
    } catch {
      if !hasLeftover, FileManager.default.fileExists(atPath: restored) {
        try FileManager.default.removeItem(atPath: restored)
      }
      throw error
    }
    do {
      try FileManager.default.moveItem(atPath: path, toPath: branch)
    } catch {
      throw Failure("rename \(path) to \(branch)", error)
    }
    do {
      try FileManager.default.moveItem(atPath: restored, toPath: path)
    } catch {
      throw Failure("rename \(restored) to \(path); the store until now is \(branch)", error)
    }
    return branch
  }

  private func freeName(_ start: String) -> String {
    var number = 1
    while FileManager.default.fileExists(atPath: start + "\(number)") { number += 1 }
    return start + "\(number)"
  }
}
