import ArgumentParser
import Moraine
import MoraineArchive

#if S3
  import MoraineS3
#endif

/// The place of an archive, as `file:/path` or `s3://bucket/prefix` names it.
struct ArchivePlace: ExpressibleByArgument {
  private enum Kind {
    case directory(String)
    case bucket(String)
  }

  private let kind: Kind
  /// The place, as the user named it.
  let text: String

  init?(argument: String) {
    text = argument
    if argument.hasPrefix("s3:") {
      kind = .bucket(argument)
      return
    }
    guard argument.hasPrefix("file:") else { return nil }
    let rest = argument.dropFirst("file:".count)
    let path = String(rest.hasPrefix("//") ? rest.dropFirst(2) : rest)
    if path.isEmpty { return nil }
    kind = .directory(path)
  }

  /// The store of objects at this place.
  ///
  /// - Throws: a failure when the address of a bucket is not as it must be, or when this program
  ///   was built without S3.
  func objects() throws -> any ObjectStore {
    switch kind {
    case .directory(let path): return DirectoryObjectStore(path)
    case .bucket(let address):
      #if S3
        return try S3ObjectStore(url: address)
      #else
        throw Failure.usage(
          "'\(address)': this program was built without S3; build it with --traits S3")
      #endif
    }
  }

  /// Prepares the place for an archive. A bucket needs no preparation: its owner has created it.
  func prepare() async throws {
    if case .directory(let path) = kind { try await DirectoryObjectStore(path).createRoot() }
  }

  /// Opens the archive at this place.
  ///
  /// - Parameter offersCreation: whether the advice for a missing archive is `--create`.
  func open(
    for store: Store? = nil, writer: String = "", offersCreation: Bool = false,
    _ configure: (inout ArchiveConfiguration) -> Void = { _ in }
  ) async throws -> Archive {
    var configuration = ArchiveConfiguration()
    configuration.writerName = writer
    // A person waits, and a directory that is missing does not come back by itself. Servers have
    // moments in which they refuse requests.
    if case .directory = kind { configuration.patience = .seconds(2) }
    configure(&configuration)
    let objects = try objects()
    do throws(ArchiveError) {
      return try await Archive.open(
        objects, at: .root, createIfMissingFor: store, configuration: configuration)
    } catch {
      throw error.advisingUsers(toCreate: offersCreation)
    }
  }

  static let help: ArgumentHelp = "The archive: file:/DIRECTORY, or s3://BUCKET/PREFIX."
}

extension ArchiveError {
  /// Returns the error with advice for a user of the command in the place of that for a program,
  /// where there is no archive.
  ///
  /// - Parameter toCreate: whether the command creates an archive with `--create`.
  func advisingUsers(toCreate: Bool) -> ArchiveError {
    var words = message
    switch code {
    case .notFound:
      words =
        "there is no archive here; check the name"
        + (toCreate ? ", or create one with --create" : "")
    case .unavailable where message.hasSuffix(DirectoryObjectStore.advice):
      words.removeLast(DirectoryObjectStore.advice.count)
      words += toCreate ? "To create an archive there, add --create" : "Otherwise check the name"
    default: return self
    }
    return ArchiveError(
      code, words, object: object, offset: offset, underlying: underlying, storeError: storeError)
  }

  /// Exit code, as listed in the help of `moraine`.
  var exitCode: Int32 {
    switch code {
    case .notFound, .invalidName, .otherStore, .stateUnavailable: 2
    case .damaged: 3
    case .newerFormat: 7
    case .fenced: 8
    case .diverged: 9
    case .unavailable, .unsupportedStore: 10
    case .store: storeError?.exitCode ?? 5
    default: 5
    }
  }
}
