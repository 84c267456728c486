public import Foundation
public import MoraineEngine
import SystemPackage

extension Store {
  /// Opens the store in the directory at a file URL; blocks the calling thread for the time it
  /// takes to read the store.
  ///
  /// - Throws: `.invalidArgument` when the URL is not a file URL; the errors of opening by path.
  public init(at url: URL, configuration: Store.Configuration = .init()) throws(StoreError) {
    try self.init(at: try FilePath(storeAt: url), configuration: configuration)
  }

  /// Opens the store in the directory at a file URL, off the caller's thread.
  ///
  /// - Throws: `.invalidArgument` when the URL is not a file URL; the errors of opening by path.
  public static func open(
    at url: URL, configuration: Store.Configuration = .init()
  ) async throws(StoreError) -> Store {
    try await open(at: try FilePath(storeAt: url), configuration: configuration)
  }
}

/// Opens the store in the directory at a file URL for the length of the body, and closes it in any
/// case.
///
/// - Throws: `.invalidArgument` when the URL is not a file URL; the body's error, or else the error
///   of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at url: URL, configuration: Store.Configuration = .init(),
  _ body: (Store) async throws -> Result
) async throws -> Result {
  try await withStore(at: try FilePath(storeAt: url), configuration: configuration, body)
}

extension FilePath {
  fileprivate init(storeAt url: URL) throws(StoreError) {
    guard url.isFileURL else {
      throw StoreError(.invalidArgument, "'\(url)' is not the URL of a file; pass a path")
    }
    // Not standardized: beyond a symbolic link ".." is another directory.
    self.init(url.absoluteURL.path)
  }
}
