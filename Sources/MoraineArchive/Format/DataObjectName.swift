package import MoraineFormat

/// The name of a data object: a segment, or the contents of a checkpoint. It is
/// `obj/<term>/<nonce>` below the root of the archive.
///
/// The name contains the term of the writer that created the object, so a later writer knows which
/// objects it may remove.
package struct DataObjectName: Hashable, Sendable, CustomStringConvertible {
  /// The term of the writer that created the object.
  package let term: UInt64
  /// A random number.
  package let nonce: Nonce

  package init(term: UInt64, nonce: Nonce) {
    precondition((1...ArchiveLimits.term).contains(term), "a term has one to ten digits")
    (self.term, self.nonce) = (term, nonce)
  }

  static let folder = "obj"
  /// The length of ``description``, in bytes.
  static let lengthBytes = 47

  /// The name relative to the root of the archive.
  package var description: String {
    "\(Self.folder)/\(FixedDecimal.text(term, digits: 10))/\(nonce)"
  }

  /// Creates the name from its text; nil unless the text is exactly one that ``description`` makes.
  package init?(_ text: some StringProtocol) {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[0] == Self.folder,
      let term = FixedDecimal.number(parts[1], digits: 10, limit: ArchiveLimits.term),
      let nonce = Nonce(hexadecimal: parts[2])
    else { return nil }
    self.init(term: term, nonce: nonce)
  }
}

/// A data object that holds the contents of a checkpoint, with what a reader needs to verify it.
package struct ContentsReference: Hashable, Sendable {
  package var name: DataObjectName
  /// The length of the object.
  package var byteCount: UInt64
  /// CRC-32C of all bytes of the object.
  package var checksum: UInt32

  package init(name: DataObjectName, byteCount: UInt64, checksum: UInt32) {
    (self.name, self.byteCount, self.checksum) = (name, byteCount, checksum)
  }

  /// Creates the reference to an object from its bytes.
  package init(name: DataObjectName, object: [UInt8]) {
    self.init(name: name, byteCount: UInt64(object.count), checksum: Checksum.of(object))
  }

  /// Checks that an object has the length and the checksum of the reference.
  package func verify(_ object: UnsafeRawBufferPointer) throws(FormatError) {
    guard UInt64(object.count) == byteCount else {
      throw FormatError(
        "the object has \(object.count) bytes, and the reference to it says \(byteCount)",
        at: min(UInt64(object.count), byteCount))
    }
    guard Checksum.of(object) == checksum else {
      throw FormatError("the checksum of the object does not match the reference to it", at: 0)
    }
  }
}
