/// An error in bytes that should be a header, a record or a manifest: the reason and the place.
public struct FormatError: Error, Equatable {
  public enum Kind: Equatable, Sendable {
    /// The bytes differ from those that were written.
    case damaged
    /// The bytes are undamaged, but they use a feature that this version does not know.
    case newer
  }

  public let kind: Kind
  public let reason: String
  /// Offset of the error in the file, in bytes.
  public let offset: UInt64

  public init(_ reason: String, at offset: UInt64) {
    kind = .damaged
    self.reason = reason
    self.offset = offset
  }

  public init(newer reason: String, at offset: UInt64) {
    kind = .newer
    self.reason = reason
    self.offset = offset
  }
}
