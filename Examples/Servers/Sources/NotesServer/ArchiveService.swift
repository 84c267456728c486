import Moraine
import MoraineArchive
import ServiceLifecycle
import SystemPackage

/// The archive of the server's store: a directory on another disk, or a mounted NAS.
struct ArchiveService: Service {
  private let writer: ArchiveWriter
  /// Throws the error with which the writer has ended; has no elements.
  private let end: AsyncThrowingStream<Void, any Error>

  /// Attaches an archive to a store. From then on, the archive receives what the store writes.
  ///
  /// - Parameters:
  ///   - path: the directory of the archive.
  ///   - isNew: whether the directory is created when it is missing. Without that, a disk that is
  ///     not mounted is an error, and not an empty archive.
  init(of store: Store, at path: String, isNew: Bool) async throws {
    let objects = DirectoryObjectStore(path)
    if isNew { try await objects.createRoot() }
    var configuration = ArchiveConfiguration()
    // A client waits for the archive when it writes.
    configuration.patience = .seconds(5)
    let (end, continuation) = AsyncThrowingStream<Void, any Error>.makeStream()
    self.end = end
    configuration.onEvent = { event in
      if case .ended(let error) = event { continuation.finish(throwing: error) }
    }
    let archive = try await Archive.open(
      objects, at: .root, createIfMissingFor: isNew ? store : nil, configuration: configuration)
    writer = try await archive.attach(store)
  }

  /// Waits for the end of the server, and detaches the archive, which then has everything.
  ///
  /// - Throws: the error with which the writer ends before the server does. The server then ends,
  ///   too: the archive would receive none of its later changes.
  func run() async throws {
    // The loop also ends when the task is cancelled, which is an end of the server, too.
    try await cancelWhenGracefulShutdown { for try await _ in end {} }
    try await writer.detach()
  }

  /// Restores the newest state of an archive to a directory that is missing or empty.
  ///
  /// - Returns: the number of restored records.
  static func restore(_ path: String, to directory: String) async throws -> Int {
    let archive = try await Archive.open(DirectoryObjectStore(path), at: .root)
    return try await archive.restore(to: FilePath(directory)).count
  }
}
