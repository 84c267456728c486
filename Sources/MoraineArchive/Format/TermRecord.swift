package import MoraineFormat

/// A term: the object that a writer creates before it writes its first commit. The writer of a
/// higher term fences the writers of lower ones.
package struct TermRecord: ArchiveRecord {
  package static let magic = Array("MORAINET".utf8)
  package static let title = "a term"

  package var archiveID: StoreIdentifier
  package var term: UInt64
  /// A random number: the writer recognizes its own term when an answer was lost.
  package var nonce: Nonce
  /// The time of creation since 1970: a label, not used for any order.
  package var createdMilliseconds: UInt64
  /// The instance id of the writer's store.
  package var instanceID: StoreIdentifier
  /// The name of the writer's machine or program, for people.
  package private(set) var writer: String

  /// - Parameter writer: is cut after a character when it is longer than 255 bytes.
  package init(
    archiveID: StoreIdentifier, term: UInt64, nonce: Nonce, createdMilliseconds: UInt64,
    instanceID: StoreIdentifier, writer: String
  ) {
    precondition((1...ArchiveLimits.term).contains(term), "a term has one to ten digits")
    (self.archiveID, self.term, self.nonce) = (archiveID, term, nonce)
    (self.createdMilliseconds, self.instanceID) = (createdMilliseconds, instanceID)
    self.writer = Self.shortened(writer)
  }

  /// Returns the first characters of a text that have at most 255 bytes together.
  private static func shortened(_ text: String) -> String {
    guard text.utf8.count > ArchiveLimits.textLengthBytes else { return text }
    var (result, count) = ("", 0)
    for character in text {
      count += character.utf8.count
      guard count <= ArchiveLimits.textLengthBytes else { break }
      result.append(character)
    }
    return result
  }

  package func encodeFields(to writer: inout ByteWriter) {
    writer.append(archiveID)
    writer.append(term)
    writer.append(nonce)
    writer.append(createdMilliseconds)
    writer.append(instanceID)
    writer.append(text: self.writer)
  }

  package init(decodingFields reader: inout ByteReader) throws(FormatError) {
    self.init(
      archiveID: try reader.readIdentifier(),
      term: try reader.readNumber("term", through: ArchiveLimits.term),
      nonce: try reader.readNonce(), createdMilliseconds: try reader.read(),
      instanceID: try reader.readIdentifier(), writer: try reader.readText("the name of a writer"))
  }
}
