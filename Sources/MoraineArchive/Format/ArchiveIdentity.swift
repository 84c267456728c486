package import MoraineFormat

/// The identity of an archive: the object `archive`. It is created once and never changes.
package struct ArchiveIdentity: ArchiveRecord {
  package static let magic = Array("MORAINEA".utf8)
  package static let title = "the identity of an archive"

  /// A random number, which every object of the archive repeats.
  package var archiveID: StoreIdentifier
  /// The store whose operations the archive holds.
  package var storeID: StoreIdentifier
  /// The time of creation since 1970: a label, not used for any order.
  package var createdMilliseconds: UInt64

  package init(archiveID: StoreIdentifier, storeID: StoreIdentifier, createdMilliseconds: UInt64) {
    (self.archiveID, self.storeID) = (archiveID, storeID)
    self.createdMilliseconds = createdMilliseconds
  }

  package func encodeFields(to writer: inout ByteWriter) {
    writer.append(archiveID)
    writer.append(storeID)
    writer.append(createdMilliseconds)
    writer.append(UInt8(0))  // encryption scheme
    writer.appendZeros(7)
  }

  package init(decodingFields reader: inout ByteReader) throws(FormatError) {
    self.init(
      archiveID: try reader.readIdentifier(), storeID: try reader.readIdentifier(),
      createdMilliseconds: try reader.read())
    let start = reader.offset
    let scheme: UInt8 = try reader.read()
    guard scheme == 0 else { throw FormatError(newer: "encryption scheme \(scheme)", at: start) }
    try reader.skipZeros(7, Self.title)
  }
}
