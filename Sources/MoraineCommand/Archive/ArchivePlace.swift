import ArgumentParser
import Foundation
import Moraine
import MoraineArchive

/// The place of an archive, as `file:/path` names it.
struct ArchivePlace: ExpressibleByArgument {
  let path: String

  init?(argument: String) {
    guard argument.hasPrefix("file:") else { return nil }
    let rest = argument.dropFirst("file:".count)
    path = String(rest.hasPrefix("//") ? rest.dropFirst(2) : rest)
    if path.isEmpty { return nil }
  }

  var objects: DirectoryObjectStore { DirectoryObjectStore(path) }

  /// Opens the archive at this place.
  func open(for store: Store? = nil, writer: String = "") async throws -> Archive {
    var configuration = ArchiveConfiguration()
    configuration.writerName = writer
    // A person waits, and a directory that is missing does not come back by itself.
    configuration.patience = .seconds(2)
    return try await Archive.open(
      objects, at: .root, createIfMissingFor: store, configuration: configuration)
  }

  static let help: ArgumentHelp = "The archive: file:/DIRECTORY."
}

extension ArchiveError {
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

/// A moment as people write it: ISO 8601, in UTC.
struct Moment: ExpressibleByArgument {
  let milliseconds: UInt64

  init?(argument: String) {
    let style = Date.ISO8601FormatStyle(includingFractionalSeconds: argument.contains("."))
    do {
      let seconds = try style.parse(argument).timeIntervalSince1970
      guard seconds >= 0, seconds < 1e12 else { return nil }
      milliseconds = UInt64((seconds * 1000).rounded())
    } catch {
      return nil
    }
  }

  static func text(milliseconds: UInt64) -> String {
    let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    return Date(timeIntervalSince1970: Double(milliseconds) / 1000).formatted(style)
  }
}
