/// The header of a segment, before its first record. Layout: `FileFormat.md`, "Segment header".
public struct SegmentHeader: Equatable, Sendable {
  public struct Flags: OptionSet, Sendable {
    public let rawValue: UInt32
    public init(rawValue: UInt32) { self.rawValue = rawValue }
    public static let compacted = Flags(rawValue: 1 << 0)
    public static let received = Flags(rawValue: 1 << 1)
    public static let encrypted = Flags(rawValue: 1 << 2)
    public static let hasDictionary = Flags(rawValue: 1 << 3)
    static let mustUnderstand: UInt32 = 0xFFFF_0000
  }

  /// The segment that the store appended to before this one.
  public struct Predecessor: Equatable, Sendable {
    public var number: UInt64
    public var lengthBytes: UInt64
    public var lastSequence: SequenceNumber

    public init(number: UInt64, lengthBytes: UInt64, lastSequence: SequenceNumber) {
      self.number = number
      self.lengthBytes = lengthBytes
      self.lastSequence = lastSequence
    }

    public static let none = Predecessor(number: 0, lengthBytes: 0, lastSequence: .none)
  }

  public static let fixedLength = 128
  public static let magic = Array("MORAINES".utf8)
  /// The longest dictionary, in bytes: LZ4 reaches no further back.
  public static let dictionaryLimit = 65_536

  public var storeID: Identifier
  public var epoch: UInt64
  public var number: SegmentNumber
  public var predecessor: Predecessor = .none
  public var generation: UInt64 = 0
  public var salt: UInt64
  public var createdMilliseconds: UInt64 = 0
  public var flags: Flags = []
  public var encryptionKeyID: UInt32 = 0
  public var dictionary: [UInt8] = []

  public init(storeID: Identifier, epoch: UInt64, number: SegmentNumber, salt: UInt64) {
    self.storeID = storeID
    self.epoch = epoch
    self.number = number
    self.salt = salt
  }

  /// Length of the header, and offset of the first record.
  public var headerLength: Int { (Self.fixedLength + dictionary.count + 7) & ~7 }

  /// The value with which the checksum of every record in this segment begins.
  public var checksumSeed: Checksum {
    var writer = ByteWriter()
    writer.append(storeID)
    writer.append(epoch)
    writer.append(number.rawValue)
    writer.append(salt)
    return Checksum(Checksum.of(writer.bytes))
  }
}
