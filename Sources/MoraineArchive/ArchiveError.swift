public import MoraineEngine
package import MoraineFormat

/// An error of an archive: what happened, where, and what to do.
public struct ArchiveError: Error, Sendable, CustomStringConvertible {
  /// The kind of failure. Later versions may add kinds, so always have a `default`.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    public let description: String
    private init(_ name: String) { description = name }

    /// There is no archive at the place.
    public static let notFound = Code("notFound")
    /// A text cannot be the name of an object.
    public static let invalidName = Code("invalidName")
    /// The store of objects cannot be reached, or refuses requests. See
    /// ``ArchiveError/underlying``.
    public static let unavailable = Code("unavailable")
    /// The store of objects cannot hold an archive: it replaces objects that exist, for example.
    public static let unsupportedStore = Code("unsupportedStore")
    /// Bytes of an object differ from those that were written.
    public static let damaged = Code("damaged")
    /// A newer version of Moraine wrote the archive.
    public static let newerFormat = Code("newerFormat")
    /// Another machine writes the archive now. This store's later writes are not archived.
    public static let fenced = Code("fenced")
    /// The store lacks operations that the archive has, or both went on from a common state.
    public static let diverged = Code("diverged")
    /// The archive is of another store.
    public static let otherStore = Code("otherStore")
    /// The archive does not hold the requested state.
    public static let stateUnavailable = Code("stateUnavailable")
    /// An operation of the local store failed. See ``ArchiveError/storeError``.
    public static let store = Code("store")
    /// The task was cancelled.
    public static let cancelled = Code("cancelled")
  }

  /// The kind of failure, for decisions of a program.
  public let code: Code
  /// What happened and what to do, in words.
  public let message: String
  /// The object that the error is about.
  public let object: ObjectName?
  /// The offset in the object, in bytes.
  public let offset: Int?
  /// The error of the store of objects.
  public let underlying: ObjectStoreError?
  /// The error of the local store.
  public let storeError: StoreError?

  /// Creates an error.
  public init(
    _ code: Code, _ message: String, object: ObjectName? = nil, offset: Int? = nil,
    underlying: ObjectStoreError? = nil, storeError: StoreError? = nil
  ) {
    (self.code, self.message, self.object, self.offset) = (code, message, object, offset)
    (self.underlying, self.storeError) = (underlying, storeError)
  }

  package init(_ error: ObjectStoreError) {
    let code: Code =
      switch error.code {
      case .unsupported: .unsupportedStore
      case .cancelled: .cancelled
      default: .unavailable
      }
    self.init(code, error.message, object: error.object, underlying: error)
  }

  package init(_ error: StoreError) {
    self.init(error.code == .cancelled ? .cancelled : .store, error.message, storeError: error)
  }

  public var description: String {
    // The root of a store of objects has no name.
    var place = object.map { $0 == .root ? "" : " (\($0)" } ?? ""
    if let offset, !place.isEmpty { place += ", offset \(offset)" }
    // The code `.store` does not say what happened; the code of the store's error does.
    var kind = code.description
    if code == .store, let storeError { kind = storeError.code.description }
    return "\(kind): \(message)" + (place.isEmpty ? "" : place + ")") + storePlace
  }

  /// The file of the local store and the offset in it, in brackets; empty when the error is about
  /// an object, or about no file.
  package var storePlace: String {
    guard object == nil, let file = storeError?.file else { return "" }
    return " [\(file)" + (storeError?.offset.map { " at byte \($0)" } ?? "") + "]"
  }
}

extension ArchiveError {
  /// Creates the error for bytes of an object that violate the format.
  package init(_ error: FormatError, object: ObjectName) {
    let offset = Int(clamping: error.offset)
    switch error.kind {
    case .damaged: self.init(.damaged, error.reason, object: object, offset: offset)
    case .newer:
      self.init(
        .newerFormat,
        "\(error.reason): written by a newer version of Moraine; update this program",
        object: object, offset: offset)
    }
  }
}
