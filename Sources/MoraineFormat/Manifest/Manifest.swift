/// The one authority on which segments make up a store. Layout: `FileFormat.md`, "Manifest".
public struct Manifest: Equatable, Sendable {
  public struct Segment: Equatable, Sendable {
    public struct Flags: OptionSet, Sendable {
      public let rawValue: UInt32
      public init(rawValue: UInt32) { self.rawValue = rawValue }
      public static let sealed = Flags(rawValue: 1 << 0)
      /// Recovery cut it: it has no footer, and its file may still be longer than `lengthBytes`.
      public static let cut = Flags(rawValue: 1 << 1)
      public static let compacted = Flags(rawValue: 1 << 2)
    }

    public var number: SegmentNumber
    public var lengthBytes: UInt64 = 0
    public var recordCount: UInt64 = 0
    public var firstSequence: SequenceNumber = .none
    public var lastSequence: SequenceNumber = .none
    public var liveBytes: UInt64 = 0
    public var epoch: UInt64
    public var flags: Flags = []

    public init(number: SegmentNumber, epoch: UInt64) {
      self.number = number
      self.epoch = epoch
    }

    public var isSealed: Bool { flags.contains(.sealed) }
  }

  public struct Keyspace: Equatable, Sendable {
    public var id: UInt16
    public var index: UInt8
    public var name: String

    public init(id: UInt16, index: UInt8, name: String) {
      self.id = id
      self.index = index
      self.name = name
    }
  }

  public struct Epoch: Equatable, Sendable {
    public var epoch: UInt64
    public var firstSequence: SequenceNumber
    public var instanceID: Identifier

    public init(epoch: UInt64, firstSequence: SequenceNumber, instanceID: Identifier) {
      self.epoch = epoch
      self.firstSequence = firstSequence
      self.instanceID = instanceID
    }
  }

  static let backupFlag: UInt32 = 1 << 0

  public static let fileName = "MANIFEST"
  public static let temporaryFileName = "MANIFEST.tmp"
  public static let magic = Array("MORAINEM".utf8)
  public static let fixedLength = 160
  /// A manifest of every segment the format allows, and names of keyspaces beside it.
  public static let lengthLimit = 128 << 20

  public var storeID: Identifier
  public var instanceID: Identifier
  public var hashKey: HashKey
  public var epoch: UInt64 = 1
  public var generation: UInt64 = 0
  public var lastSequence: SequenceNumber = .none
  public var nextSegmentNumber: UInt64 = 1
  public var feedHorizon: SequenceNumber = .none
  public var watermarkSegment: UInt64 = 0
  public var watermarkOffset: UInt64 = 0
  public var compactedThrough: SequenceNumber = .none
  public var digest = StateDigest()
  public var createdMilliseconds: UInt64 = 0
  /// Whether it is a backup's: nobody writes there.
  public var isBackup = false
  public var segments: [Segment] = []
  public var keyspaces: [Keyspace] = []
  public var epochs: [Epoch] = []

  public init(storeID: Identifier, instanceID: Identifier, hashKey: HashKey) {
    self.storeID = storeID
    self.instanceID = instanceID
    self.hashKey = hashKey
  }

  /// True when the last user of the store closed it in order.
  public var isClean: Bool { segments.allSatisfy(\.isSealed) }
}
