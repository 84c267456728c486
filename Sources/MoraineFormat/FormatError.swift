/// An error in bytes that should be a header, a record or a manifest: the reason and the place.
package struct FormatError: Error, Equatable {
  package enum Kind: Equatable, Sendable {
    /// The bytes differ from those that were written.
    case damaged
    /// The bytes are undamaged, but they use a feature that this version does not know.
    case newer
  }

  package let kind: Kind
  package let reason: String
  /// Offset of the error in the file, in bytes.
  package let offset: UInt64

  package init(_ reason: String, at offset: UInt64) {
    kind = .damaged
    self.reason = reason
    self.offset = offset
  }

  package init(newer reason: String, at offset: UInt64) {
    kind = .newer
    self.reason = reason
    self.offset = offset
  }
}
