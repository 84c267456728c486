import Foundation
import MoraineEngine
import SystemPackage

/// The path of a store that is named by a directory and a filename.
enum StorePlace {
  /// Returns the path of the store.
  ///
  /// - Parameter directory: nil is the user's documents directory.
  static func path(_ directory: URL?, _ filename: String) throws(StoreError) -> FilePath {
    let directory = if let directory { directory } else { try documents() }
    guard directory.isFileURL else {
      throw StoreError(.invalidArgument, "'\(directory)' is not a directory on this machine")
    }
    let isName =
      !filename.isEmpty && filename != "." && filename != ".." && !filename.contains("/")
      && !filename.utf8.contains(0) && filename.utf8.count <= 240
    guard isName else {
      throw StoreError(
        .invalidArgument, "'\(filename)' is not a file name; pass the directory separately")
    }
    // The path is not normalized as text: after a symbolic link ".." is another directory.
    return FilePath(directory.absoluteURL.path).appending(filename + ".moraine")
  }

  private static func documents() throws(StoreError) -> URL {
    // `URL.documentsDirectory` exists only on Apple platforms.
    let places = FileManager.default.urls(for: .documentDirectory, in: .userDomainMask)
    guard let first = places.first else {
      throw StoreError(.invalidArgument, "this user has no documents directory; pass a directory")
    }
    return first
  }
}
