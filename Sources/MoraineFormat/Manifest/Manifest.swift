/// The authoritative list of the segments that make up a store. Layout: `FileFormat.md`,
/// "Manifest".
package struct Manifest: Equatable, Sendable {
  package struct Segment: Equatable, Sendable {
    package struct Flags: OptionSet, Sendable {
      package let rawValue: UInt32
      package init(rawValue: UInt32) { self.rawValue = rawValue }
      package static let sealed = Flags(rawValue: 1 << 0)
      /// Recovery cut the segment: it has no footer, and its file may still be longer than
      /// `lengthBytes`.
      package static let cut = Flags(rawValue: 1 << 1)
      package static let compacted = Flags(rawValue: 1 << 2)
    }

    package var number: SegmentNumber
    package var lengthBytes: UInt64 = 0
    package var recordCount: UInt64 = 0
    package var firstSequence: SequenceNumber = .none
    package var lastSequence: SequenceNumber = .none
    package var liveBytes: UInt64 = 0
    package var epoch: UInt64
    package var flags: Flags = []

    package init(number: SegmentNumber, epoch: UInt64) {
      self.number = number
      self.epoch = epoch
    }

    package var isSealed: Bool { flags.contains(.sealed) }
  }

  package struct Keyspace: Equatable, Sendable {
    package var id: UInt16
    package var index: UInt8
    package var name: String

    package init(id: UInt16, index: UInt8, name: String) {
      self.id = id
      self.index = index
      self.name = name
    }
  }

  package struct Epoch: Equatable, Sendable {
    package var epoch: UInt64
    package var firstSequence: SequenceNumber
    package var instanceID: StoreIdentifier

    package init(epoch: UInt64, firstSequence: SequenceNumber, instanceID: StoreIdentifier) {
      self.epoch = epoch
      self.firstSequence = firstSequence
      self.instanceID = instanceID
    }
  }

  /// The place where a recovery ended the log after an unclean stop. Any operations after it are
  /// lost, and their sequence numbers may be assigned again.
  package struct Cut: Equatable, Sendable {
    /// The number of the cut, counted from 1.
    package var number: UInt64
    /// The last operation that the log contains, or that a compaction has made durable.
    package var lastSequence: SequenceNumber
    /// A random number. The cuts of two copies of a store have the same numbers, but not the same
    /// ids.
    package var id: UInt64

    package init(number: UInt64, lastSequence: SequenceNumber, id: UInt64) {
      self.number = number
      self.lastSequence = lastSequence
      self.id = id
    }
  }

  static let backupFlag: UInt32 = 1 << 0
  /// The most cuts that a manifest lists.
  static let cutLimit = 64

  package static let fileName = "MANIFEST"
  package static let temporaryFileName = "MANIFEST.tmp"
  package static let magic = Array("MORAINEM".utf8)
  package static let fixedLength = 160
  /// The longest manifest, in bytes: it lists every segment that the format allows, and the names
  /// of keyspaces.
  package static let lengthLimit = 128 << 20

  package var storeID: StoreIdentifier
  package var instanceID: StoreIdentifier
  package var hashKey: HashKey
  package var epoch: UInt64 = 1
  package var generation: UInt64 = 0
  package var lastSequence: SequenceNumber = .none
  package var nextSegmentNumber: UInt64 = 1
  package var feedHorizon: SequenceNumber = .none
  package var watermarkSegment: UInt64 = 0
  package var watermarkOffset: UInt64 = 0
  package var compactedThrough: SequenceNumber = .none
  package var digest = StateDigest()
  package var createdMilliseconds: UInt64 = 0
  /// Whether the manifest belongs to a backup, which no store writes to.
  package var isBackup = false
  package var segments: [Segment] = []
  package var keyspaces: [Keyspace] = []
  package var epochs: [Epoch] = []
  /// The cuts, by rising numbers and by rising sequence numbers. A cut replaces the earlier cuts
  /// that do not end before it, because it covers everything that they cover.
  package private(set) var cuts: [Cut] = []

  package init(storeID: StoreIdentifier, instanceID: StoreIdentifier, hashKey: HashKey) {
    self.storeID = storeID
    self.instanceID = instanceID
    self.hashKey = hashKey
  }

  /// Adds a cut after all others. Above the limit, the two oldest cuts become one. It covers what
  /// both cover, and more than either.
  package mutating func addCut(after last: SequenceNumber, id: UInt64) {
    let number = (cuts.last?.number ?? 0) + 1
    cuts.removeAll { $0.lastSequence >= last }
    cuts.append(Cut(number: number, lastSequence: last, id: id))
    guard cuts.count > Self.cutLimit else { return }
    cuts[1].lastSequence = cuts[0].lastSequence
    cuts.removeFirst()
  }

  /// Removes all cuts, for a new store or for one that gets another identity.
  package mutating func forgetCuts() { cuts = [] }

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
  package func mayHaveLost(through sequence: SequenceNumber, since known: [Cut]) -> Bool {
    let last = known.last?.number ?? 0
    if last > cuts.last?.number ?? 0 { return true }
    if let same = cuts.first(where: { $0.number == last }), same.id != known.last?.id {
      return true
    }
    return cuts.contains { $0.number > last && $0.lastSequence < sequence }
  }

  /// Whether the last process that used the store closed it in order.
  package var isClean: Bool { segments.allSatisfy(\.isSealed) }
}
