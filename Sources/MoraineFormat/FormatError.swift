/// What is wrong with bytes that should be a header, a record or a manifest, and where.
public struct FormatError: Error, Equatable {
  public enum Kind: Equatable, Sendable {
    /// The bytes are not what was once written.
    case damaged
    /// The bytes are sound, and use something that this version does not know.
    case newer
  }

  public let kind: Kind
  public let reason: String
  /// The place in the file.
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
