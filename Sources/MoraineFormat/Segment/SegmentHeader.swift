/// The header of a segment, before its first record. Layout: `FileFormat.md`, "Segment header".
package struct SegmentHeader: Equatable, Sendable {
  package struct Flags: OptionSet, Sendable {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }
    package static let compacted = Flags(rawValue: 1 << 0)
    package static let received = Flags(rawValue: 1 << 1)
    package static let encrypted = Flags(rawValue: 1 << 2)
    package static let hasDictionary = Flags(rawValue: 1 << 3)
    static let mustUnderstand: UInt32 = 0xFFFF_0000
  }

  /// The segment that the store appended to before this one.
  package struct Predecessor: Equatable, Sendable {
    package var number: UInt64
    package var lengthBytes: UInt64
    package var lastSequence: SequenceNumber

    package init(number: UInt64, lengthBytes: UInt64, lastSequence: SequenceNumber) {
      self.number = number
      self.lengthBytes = lengthBytes
      self.lastSequence = lastSequence
    }

    package static let none = Predecessor(number: 0, lengthBytes: 0, lastSequence: .none)
  }

  package static let fixedLength = 128
  package static let magic = Array("MORAINES".utf8)
  /// The longest dictionary, in bytes: LZ4 reaches no further back.
  package static let dictionaryLimit = 65_536

  package var storeID: StoreIdentifier
  package var epoch: UInt64
  package var number: SegmentNumber
  package var predecessor: Predecessor = .none
  package var generation: UInt64 = 0
  package var salt: UInt64
  package var createdMilliseconds: UInt64 = 0
  package var flags: Flags = []
  package var encryptionKeyID: UInt32 = 0
  package var dictionary: [UInt8] = []

  package init(storeID: StoreIdentifier, epoch: UInt64, number: SegmentNumber, salt: UInt64) {
    self.storeID = storeID
    self.epoch = epoch
    self.number = number
    self.salt = salt
  }

  /// Length of the header, and offset of the first record.
  package var headerLength: Int { (Self.fixedLength + dictionary.count + 7) & ~7 }

  /// The value with which the checksum of every record in this segment begins.
  package var checksumSeed: Checksum {
    var writer = ByteWriter()
    writer.append(storeID)
    writer.append(epoch)
    writer.append(number.rawValue)
    writer.append(salt)
    return Checksum(Checksum.of(writer.bytes))
  }
}
