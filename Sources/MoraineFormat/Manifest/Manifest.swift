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

  /// Where a recovery ended the log after an unclean stop. What came after it, if there was
  /// anything, is lost, and its sequence numbers may be given again.
  public struct Cut: Equatable, Sendable {
    /// Counted from 1.
    public var number: UInt64
    /// The last operation that the log had, or that a compaction has made durable.
    public var lastSequence: SequenceNumber
    /// Random: the cuts of two copies of a store have the same numbers.
    public var id: UInt64

    public init(number: UInt64, lastSequence: SequenceNumber, id: UInt64) {
      self.number = number
      self.lastSequence = lastSequence
      self.id = id
    }
  }

  static let backupFlag: UInt32 = 1 << 0
  /// How many cuts a manifest lists.
  static let cutLimit = 64

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
  /// By rising numbers, and by rising sequence numbers: a cut says all that an earlier one says
  /// which did not end before it.
  public private(set) var cuts: [Cut] = []

  public init(storeID: Identifier, instanceID: Identifier, hashKey: HashKey) {
    self.storeID = storeID
    self.instanceID = instanceID
    self.hashKey = hashKey
  }

  /// Adds a cut after all others. Of too many, the two oldest become one that says as much as both,
  /// and more than either.
  public mutating func addCut(after last: SequenceNumber, id: UInt64) {
    let number = (cuts.last?.number ?? 0) + 1
    cuts.removeAll { $0.lastSequence >= last }
    cuts.append(Cut(number: number, lastSequence: last, id: id))
    guard cuts.count > Self.cutLimit else { return }
    cuts[1].lastSequence = cuts[0].lastSequence
    cuts.removeFirst()
  }

  /// The list of a store that begins, or that begins again with another identity.
  public mutating func forgetCuts() { cuts = [] }

  /// Takes a list that was read.
  ///
  /// - Returns: false when no recovery makes such a list.
  mutating func takeCuts(_ list: [Cut]) -> Bool {
    cuts = list
    return list.count <= Self.cutLimit && list.allSatisfy { $0.number > 0 && $0.number < 1 << 63 }
      && zip(list, list.dropFirst()).allSatisfy {
        $0.number < $1.number && $0.lastSequence < $1.lastSequence
      } && list.allSatisfy { $0.lastSequence <= lastSequence }
  }

  /// Whether operations up to a number, which a backup has that knew these cuts, may not be this
  /// store's: a cut came since that ended the log before that number, or the cuts are of a copy.
  public func mayHaveLost(through sequence: SequenceNumber, since known: [Cut]) -> Bool {
    let last = known.last?.number ?? 0
    if last > cuts.last?.number ?? 0 { return true }
    if let same = cuts.first(where: { $0.number == last }), same.id != known.last?.id {
      return true
    }
    return cuts.contains { $0.number > last && $0.lastSequence < sequence }
  }

  /// True when the last user of the store closed it in order.
  public var isClean: Bool { segments.allSatisfy(\.isSealed) }
}
