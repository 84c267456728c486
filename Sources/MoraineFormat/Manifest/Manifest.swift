/// The authoritative list of the segments that make up a store. Layout: `FileFormat.md`,
/// "Manifest".
public struct Manifest: Equatable, Sendable {
  public struct Segment: Equatable, Sendable {
    public struct Flags: OptionSet, Sendable {
      public let rawValue: UInt32
      public init(rawValue: UInt32) { self.rawValue = rawValue }
      public static let sealed = Flags(rawValue: 1 << 0)
      /// Recovery cut the segment: it has no footer, and its file may still be longer than
      /// `lengthBytes`.
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

  /// The place where a recovery ended the log after an unclean stop. Any operations after it are
  /// lost, and their sequence numbers may be assigned again.
  public struct Cut: Equatable, Sendable {
    /// The number of the cut, counted from 1.
    public var number: UInt64
    /// The last operation that the log contains, or that a compaction has made durable.
    public var lastSequence: SequenceNumber
    /// A random number. The cuts of two copies of a store have the same numbers, but not the same
    /// ids.
    public var id: UInt64

    public init(number: UInt64, lastSequence: SequenceNumber, id: UInt64) {
      self.number = number
      self.lastSequence = lastSequence
      self.id = id
    }
  }

  static let backupFlag: UInt32 = 1 << 0
  /// The most cuts that a manifest lists.
  static let cutLimit = 64

  public static let fileName = "MANIFEST"
  public static let temporaryFileName = "MANIFEST.tmp"
  public static let magic = Array("MORAINEM".utf8)
  public static let fixedLength = 160
  /// The longest manifest, in bytes: it lists every segment that the format allows, and the names
  /// of keyspaces.
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
  /// Whether the manifest belongs to a backup, which no store writes to.
  public var isBackup = false
  public var segments: [Segment] = []
  public var keyspaces: [Keyspace] = []
  public var epochs: [Epoch] = []
  /// The cuts, by rising numbers and by rising sequence numbers. A cut replaces the earlier cuts
  /// that do not end before it, because it covers everything that they cover.
  public private(set) var cuts: [Cut] = []

  public init(storeID: Identifier, instanceID: Identifier, hashKey: HashKey) {
    self.storeID = storeID
    self.instanceID = instanceID
    self.hashKey = hashKey
  }

  /// Adds a cut after all others. Above the limit, the two oldest cuts become one. It covers what
  /// both cover, and more than either.
  public mutating func addCut(after last: SequenceNumber, id: UInt64) {
    let number = (cuts.last?.number ?? 0) + 1
    cuts.removeAll { $0.lastSequence >= last }
    cuts.append(Cut(number: number, lastSequence: last, id: id))
    guard cuts.count > Self.cutLimit else { return }
    cuts[1].lastSequence = cuts[0].lastSequence
    cuts.removeFirst()
  }

  /// Removes all cuts, for a new store or for one that gets another identity.
  public mutating func forgetCuts() { cuts = [] }

  /// Sets the list of cuts that was read.
  ///
  /// - Returns: false when no recovery makes such a list.
  mutating func takeCuts(_ list: [Cut]) -> Bool {
    cuts = list
    return list.count <= Self.cutLimit && list.allSatisfy { $0.number > 0 && $0.number < 1 << 63 }
      && zip(list, list.dropFirst()).allSatisfy {
        $0.number < $1.number && $0.lastSequence < $1.lastSequence
      } && list.allSatisfy { $0.lastSequence <= lastSequence }
  }

  /// Returns whether a backup may hold operations up to a number that are no longer part of this
  /// store's history. The backup knew the cuts `known`. Either a later cut ended the log before
  /// that number, or `known` are the cuts of another copy.
  public func mayHaveLost(through sequence: SequenceNumber, since known: [Cut]) -> Bool {
    let last = known.last?.number ?? 0
    if last > cuts.last?.number ?? 0 { return true }
    if let same = cuts.first(where: { $0.number == last }), same.id != known.last?.id {
      return true
    }
    return cuts.contains { $0.number > last && $0.lastSequence < sequence }
  }

  /// Whether the last process that used the store closed it in order.
  public var isClean: Bool { segments.allSatisfy(\.isSealed) }
}
