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

  /// Copies the store into the directory at a file URL, like
  /// ``/MoraineEngine/Store/backup(to:onProgress:)``.
  ///
  /// - Throws: `.invalidArgument` when the URL is not a file URL; the errors of a backup by path.
  @discardableResult
  public func backup(
    to url: URL, onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> BackupReport {
    try await backup(to: try FilePath(storeAt: url), onProgress: progress)
  }

  /// Makes a store from the backup at a file URL, like
  /// ``/MoraineEngine/Store/restore(_:to:through:onProgress:)``.
  ///
  /// - Throws: `.invalidArgument` when a URL is not a file URL; the errors of a restore by path.
  @discardableResult
  public static func restore(
    _ backup: URL, to url: URL, through sequence: SequenceNumber? = nil,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> RestoreReport {
    try await restore(
      try FilePath(storeAt: backup), to: try FilePath(storeAt: url), through: sequence,
      onProgress: progress)
  }

  /// Salvages the damaged store at a file URL, like
  /// ``/MoraineEngine/Store/salvage(_:to:onProgress:)``.
  ///
  /// - Throws: `.invalidArgument` when a URL is not a file URL; the errors of a salvage by path.
  @discardableResult
  public static func salvage(
    _ damaged: URL, to url: URL,
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> SalvageReport {
    try await salvage(
      try FilePath(storeAt: damaged), to: try FilePath(storeAt: url), onProgress: progress)
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

/// Opens the store in the directory at a file URL for the length of a body that throws no errors,
/// or those of the store, and closes it in any case.
///
/// - Throws: `.invalidArgument` when the URL is not a file URL; the body's error, or else the error
///   of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at url: URL, configuration: Store.Configuration = .init(),
  _ body: (Store) async throws(StoreError) -> Result
) async throws(StoreError) -> Result {
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
