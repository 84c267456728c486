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
      /// The segment's header has the flag of the same name.
      package static let clustered = Flags(rawValue: 1 << 3)
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

    /// The value of ``index`` for an ordered keyspace. A hashed one has 0.
    package static let orderedIndex: UInt8 = 1
    /// The first of the numbers that belong to the system. No manifest lists them.
    package static let firstSystemID: UInt16 = 0xFF00

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

  /// The archive that holds a continuous copy of this store. A copy of the directory that did not
  /// write the archive does not have the term.
  package struct Attachment: Equatable, Sendable {
    package var archiveID: StoreIdentifier
    /// The term under which a process writes the archive from this directory, or tried to.
    package var term: UInt64
    /// The term of the archive's last commit when the process began to take over, which this
    /// directory had written or continues; 0 for none.
    package var earlierTerm: UInt64

    package init(archiveID: StoreIdentifier, term: UInt64, earlierTerm: UInt64 = 0) {
      (self.archiveID, self.term, self.earlierTerm) = (archiveID, term, earlierTerm)
    }
  }

  /// The place in the history of an archive that a follower has reached. With it, no program writes
  /// to the store but the one that follows the archive.
  package struct Following: Equatable, Sendable {
    package var archiveID: StoreIdentifier
    /// The position of the last commit that the store contains, and its term and nonce.
    package var position: UInt64
    package var term: UInt64
    package var nonceLow: UInt64
    package var nonceHigh: UInt64
    /// The number of a checkpoint of the archive at or below the position; 0 for none.
    package var checkpoint: UInt64

    package init(
      archiveID: StoreIdentifier, position: UInt64, term: UInt64, nonceLow: UInt64,
      nonceHigh: UInt64, checkpoint: UInt64
    ) {
      (self.archiveID, self.position, self.term) = (archiveID, position, term)
      (self.nonceLow, self.nonceHigh, self.checkpoint) = (nonceLow, nonceHigh, checkpoint)
    }
  }

  static let backupFlag: UInt32 = 1 << 0
  /// The number after the last one that a cut may have.
  static let cutNumberEnd: UInt64 = 1 << 63
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
  /// The numbers of the ordered keyspaces, ascending. 0 is the unnamed keyspace.
  package var ordered: [UInt16] = []
  package var epochs: [Epoch] = []
  /// The cuts, by rising numbers and by rising sequence numbers. A cut replaces the earlier cuts
  /// that do not end before it, because it covers everything that they cover.
  package private(set) var cuts: [Cut] = []
  /// The archive of the store; nil when it has none. A backup has none.
  package var attachment: Attachment?
  /// What the store follows; nil when it follows no archive.
  package var following: Following?

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

  /// Removes the cuts that end after the last operation, for a store that begins at an earlier
  /// state. Such a manifest could not be read. The other cuts stay: a cursor of an operation that
  /// they removed is as wrong in a copy of the store.
  package mutating func forgetLaterCuts() {
    let last = lastSequence
    cuts.removeAll { $0.lastSequence > last }
  }

  /// Sets the list of cuts that was read.
  ///
  /// - Returns: false when no recovery makes such a list.
  mutating func takeCuts(_ list: [Cut]) -> Bool {
    cuts = list
    return list.count <= Self.cutLimit
      && list.allSatisfy { $0.number > 0 && $0.number < Self.cutNumberEnd }
      && zip(list, list.dropFirst()).allSatisfy {
        $0.number < $1.number && $0.lastSequence < $1.lastSequence
      } && list.allSatisfy { $0.lastSequence <= lastSequence }
  }

  /// Whether the last cut has used up the numbers of cuts: no reader accepts the manifest.
  package var hasTooManyCuts: Bool { cuts.last.map { $0.number >= Self.cutNumberEnd } ?? false }

  /// Whether the feed horizon or the last cut lies after the last operation, so that no reader
  /// accepts the manifest.
  package var endsBeforeItsFigures: Bool {
    feedHorizon > lastSequence || cuts.last.map { $0.lastSequence > lastSequence } ?? false
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

extension Manifest {
  enum SectionTag: UInt16 {
    case segments = 1
    case keyspaces = 2
    case epochs = 3
    /// Optional: a reader that does not know cuts ignores them.
    case cuts = 4
    /// A reader that does not know it cannot open the store: it would write index checkpoints
    /// without the keys of ordered keyspaces.
    case ordered = 5
    /// Optional: a program that does not know archives leaves it out when it writes the manifest.
    case attachment = 6
    /// A program that does not know it cannot open the store: it would write to it.
    case following = 7
  }

  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: Self.magic)
    writer.append(formatVersion)
    writer.append(UInt16(0))
    writer.append(UInt32(0))  // length, known at the end
    writer.append(storeID)
    writer.append(instanceID)
    writer.append(hashKey.k0)
    writer.append(hashKey.k1)
    writer.append(epoch)
    writer.append(generation)
    writer.append(lastSequence.rawValue)
    writer.append(nextSegmentNumber)
    writer.append(feedHorizon.rawValue)
    writer.append(watermarkSegment)
    writer.append(watermarkOffset)
    writer.append(compactedThrough.rawValue)
    writer.append(digest)
    writer.append(createdMilliseconds)
    writer.append(isBackup ? Self.backupFlag : 0)
    writer.append(
      UInt32(
        3 + (cuts.isEmpty ? 0 : 1) + (ordered.isEmpty ? 0 : 1) + (attachment == nil ? 0 : 1)
          + (following == nil ? 0 : 1)))
    precondition(writer.bytes.count == Self.fixedLength, "manifest layout changed")
    append(.segments, encodedSegments(), to: &writer)
    append(.keyspaces, encodedKeyspaces(), to: &writer)
    append(.epochs, encodedEpochs(), to: &writer)
    if !cuts.isEmpty { append(.cuts, encodedCuts(), to: &writer) }
    if !ordered.isEmpty { append(.ordered, encodedOrdered(), to: &writer) }
    if let attachment { append(.attachment, encoded(attachment), to: &writer) }
    if let following { append(.following, encoded(following), to: &writer) }
    writer.replace(at: 12, with: UInt32(writer.bytes.count + 4))
    writer.append(Checksum.of(writer.bytes))
    return writer.bytes
  }

  private func append(_ tag: SectionTag, _ payload: [UInt8], to writer: inout ByteWriter) {
    writer.append(tag.rawValue)
    writer.append(UInt16(tag == .cuts || tag == .attachment ? 0 : 1))
    writer.append(UInt32(payload.count))
    writer.append(contentsOf: payload)
  }

  private func encodedSegments() -> [UInt8] {
    var writer = ByteWriter()
    for segment in segments {
      writer.append(segment.number.rawValue)
      writer.append(segment.lengthBytes)
      writer.append(segment.recordCount)
      writer.append(segment.firstSequence.rawValue)
      writer.append(segment.lastSequence.rawValue)
      writer.append(segment.liveBytes)
      writer.append(segment.epoch)
      writer.append(segment.flags.rawValue)
      writer.appendZeros(12)
    }
    return writer.bytes
  }

  private func encodedKeyspaces() -> [UInt8] {
    var writer = ByteWriter()
    for keyspace in keyspaces {
      let name = Array(keyspace.name.utf8)
      precondition(name.count <= 255, "a keyspace name exceeds 255 bytes")
      writer.append(keyspace.id)
      writer.append(keyspace.index)
      writer.append(UInt8(name.count))
      writer.append(contentsOf: name)
    }
    return writer.bytes
  }

  private func encodedEpochs() -> [UInt8] {
    var writer = ByteWriter()
    for entry in epochs {
      writer.append(entry.epoch)
      writer.append(entry.firstSequence.rawValue)
      writer.append(entry.instanceID)
    }
    return writer.bytes
  }

  private func encodedOrdered() -> [UInt8] {
    var writer = ByteWriter()
    for id in ordered {
      writer.append(id)
      writer.append(Keyspace.orderedIndex)
      writer.append(UInt8(0))
    }
    return writer.bytes
  }

  private func encoded(_ attachment: Attachment) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(attachment.archiveID)
    writer.append(attachment.term)
    writer.append(attachment.earlierTerm)
    return writer.bytes
  }

  private func encoded(_ following: Following) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(following.archiveID)
    writer.append(following.position)
    writer.append(following.term)
    writer.append(following.nonceLow)
    writer.append(following.nonceHigh)
    writer.append(following.checkpoint)
    return writer.bytes
  }

  private func encodedCuts() -> [UInt8] {
    var writer = ByteWriter()
    for cut in cuts {
      writer.append(cut.number)
      writer.append(cut.lastSequence.rawValue)
      writer.append(cut.id)
    }
    return writer.bytes
  }
}

extension Manifest {
  /// Reads a whole manifest file.
  ///
  /// The checksum is verified before the version: a damaged version number is damage, not a newer
  /// version.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    guard bytes.count >= Self.fixedLength + 4 else {
      throw FormatError("the file is shorter than a manifest", at: UInt64(bytes.count))
    }
    let body = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 4)])
    var reader = ByteReader(body)
    guard try reader.take(8).elementsEqual(Self.magic) else {
      throw FormatError("not a Moraine manifest (wrong magic)", at: 0)
    }
    let version: UInt16 = try reader.read()
    let reserved: UInt16 = try reader.read()
    let length: UInt32 = try reader.read()
    guard Int(length) == bytes.count else {
      throw FormatError(
        "the manifest has \(bytes.count) bytes, but its header says \(length)", at: 12)
    }
    let stored = bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self)
    guard Checksum.of(body) == UInt32(littleEndian: stored) else {
      throw FormatError("manifest checksum does not match", at: UInt64(body.count))
    }
    guard version == formatVersion, reserved == 0 else {
      throw FormatError(newer: "format version \(version)", at: 8)
    }
    self.init(
      storeID: try reader.readIdentifier(), instanceID: try reader.readIdentifier(),
      hashKey: HashKey(k0: try reader.read(), k1: try reader.read()))
    try decodeFixedFields(&reader)
    let flags: UInt32 = try reader.read()
    guard flags & 0xFFFF_0000 == 0 else {
      throw FormatError(newer: "manifest flags that this version does not know", at: 152)
    }
    isBackup = flags & Self.backupFlag != 0
    let sectionCount: UInt32 = try reader.read()
    for _ in 0..<sectionCount { try decodeSection(&reader) }
    guard reader.remaining == 0 else {
      throw FormatError("bytes after the last section", at: reader.offset)
    }
    try checkSegments()
    try checkOrdered()
  }

  /// Checks that the entry of each keyspace has the index that the section of ordered keyspaces
  /// says.
  private func checkOrdered() throws(FormatError) {
    let ids = Set(keyspaces.map(\.id)).union([0])
    guard ordered.allSatisfy({ ids.contains($0) }),
      keyspaces.allSatisfy({ ($0.index == Keyspace.orderedIndex) == ordered.contains($0.id) })
    else { throw FormatError("the indexes of the keyspaces contradict each other", at: 0) }
  }

  /// Makes a keyspace ordered.
  package mutating func order(_ id: UInt16) {
    guard !ordered.contains(id) else { return }
    ordered = (ordered + [id]).sorted()
    for index in keyspaces.indices where keyspaces[index].id == id {
      keyspaces[index].index = Keyspace.orderedIndex
    }
  }

  /// Checks that no segment has a higher epoch or a higher sequence number than the manifest.
  private func checkSegments() throws(FormatError) {
    for segment in segments {
      guard segment.epoch <= epoch else {
        throw FormatError(
          "segment \(segment.number) has epoch \(segment.epoch), above the manifest's", at: 64)
      }
      guard segment.lastSequence <= lastSequence else {
        throw FormatError(
          "segment \(segment.number) ends at \(segment.lastSequence), above the manifest's last",
          at: 80)
      }
    }
  }

  private mutating func decodeFixedFields(_ reader: inout ByteReader) throws(FormatError) {
    epoch = try reader.read()
    generation = try reader.read()
    lastSequence = SequenceNumber(rawValue: try reader.read())
    nextSegmentNumber = try reader.read()
    feedHorizon = SequenceNumber(rawValue: try reader.read())
    watermarkSegment = try reader.read()
    watermarkOffset = try reader.read()
    compactedThrough = SequenceNumber(rawValue: try reader.read())
    digest = try reader.readDigest()
    createdMilliseconds = try reader.read()
    guard lastSequence <= .max, nextSegmentNumber > 0 else {
      throw FormatError("invalid sequence or segment number", at: 80)
    }
    // A recovery adds a cut of the log at this number or after it, and no cut lies after the log.
    guard feedHorizon <= lastSequence else {
      throw FormatError("the feed horizon \(feedHorizon) is above the last sequence", at: 96)
    }
    // No store counts this far. The limit keeps a later increment from overflowing.
    guard max(epoch, generation, nextSegmentNumber) <= StoreLimits.manifestCounter else {
      throw FormatError("invalid epoch, generation or segment number", at: 64)
    }
  }

  private mutating func decodeSection(_ reader: inout ByteReader) throws(FormatError) {
    let start = reader.offset
    let rawTag: UInt16 = try reader.read()
    let flags: UInt16 = try reader.read()
    let length: UInt32 = try reader.read()
    var payload = ByteReader(try reader.take(Int(length)), fileOffset: start + 8)
    switch SectionTag(rawValue: rawTag) {
    case .segments: try decodeSegments(&payload)
    case .keyspaces: try decodeKeyspaces(&payload)
    case .epochs: try decodeEpochs(&payload)
    case .cuts: try decodeCuts(&payload)
    case .ordered: try decodeOrdered(&payload)
    case .attachment: try decodeAttachment(&payload)
    case .following: try decodeFollowing(&payload)
    case nil:
      guard flags & 1 == 0 else {
        throw FormatError(newer: "manifest section \(rawTag)", at: start)
      }
    }
  }

  private mutating func decodeSegments(_ reader: inout ByteReader) throws(FormatError) {
    var seen = Set(segments.map(\.number))
    while reader.remaining > 0 {
      let start = reader.offset
      let number = SegmentNumber(rawValue: try reader.read())
      var segment = Segment(number: number, epoch: 0)
      segment.lengthBytes = try reader.read()
      segment.recordCount = try reader.read()
      segment.firstSequence = SequenceNumber(rawValue: try reader.read())
      segment.lastSequence = SequenceNumber(rawValue: try reader.read())
      segment.liveBytes = try reader.read()
      segment.epoch = try reader.read()
      segment.flags = Segment.Flags(rawValue: try reader.read())
      try reader.skipZeros(12, "manifest segment entry")
      guard number.rawValue > 0, number.rawValue < nextSegmentNumber,
        segment.lengthBytes <= StoreLimits.segmentLengthBytes,
        segments.count < StoreLimits.segmentCount
      else { throw FormatError("invalid segment entry", at: start) }
      guard seen.insert(number).inserted else {
        throw FormatError("segment \(number) is listed twice", at: start)
      }
      segments.append(segment)
    }
  }

  private mutating func decodeKeyspaces(_ reader: inout ByteReader) throws(FormatError) {
    var ids = Set(keyspaces.map(\.id)).union([0])
    var names = Set(keyspaces.map(\.name)).union([""])
    while reader.remaining > 0 {
      let start = reader.offset
      let id: UInt16 = try reader.read()
      let index: UInt8 = try reader.read()
      let length: UInt8 = try reader.read()
      guard index <= Keyspace.orderedIndex else {
        throw FormatError(newer: "index \(index) of keyspace \(id)", at: start)
      }
      // Repaired text would be another name, and could be too long to be written again.
      guard let name = String(validating: try reader.take(Int(length)), as: UTF8.self) else {
        throw FormatError("a keyspace name that is not UTF-8", at: start)
      }
      // Programs would read the records of the system by that name.
      guard id < Keyspace.firstSystemID else {
        throw FormatError("keyspace \(id) belongs to the system and has a name", at: start)
      }
      guard ids.insert(id).inserted, names.insert(name).inserted else {
        throw FormatError("two keyspaces have the same number or name", at: start)
      }
      keyspaces.append(Keyspace(id: id, index: index, name: name))
    }
  }

  private mutating func decodeOrdered(_ reader: inout ByteReader) throws(FormatError) {
    while reader.remaining > 0 {
      let start = reader.offset
      let id: UInt16 = try reader.read()
      let index: UInt8 = try reader.read()
      let reserved: UInt8 = try reader.read()
      guard index == Keyspace.orderedIndex, reserved == 0 else {
        throw FormatError(newer: "index \(index) of keyspace \(id)", at: start)
      }
      guard id > ordered.last ?? 0 || ordered.isEmpty else {
        throw FormatError("the ordered keyspaces do not rise", at: start)
      }
      ordered.append(id)
    }
  }

  private mutating func decodeEpochs(_ reader: inout ByteReader) throws(FormatError) {
    while reader.remaining > 0 {
      epochs.append(
        Epoch(
          epoch: try reader.read(), firstSequence: SequenceNumber(rawValue: try reader.read()),
          instanceID: try reader.readIdentifier()))
    }
  }

  private mutating func decodeAttachment(_ reader: inout ByteReader) throws(FormatError) {
    while reader.remaining > 0 {
      attachment = Attachment(
        archiveID: try reader.readIdentifier(), term: try reader.read(),
        earlierTerm: try reader.read())
    }
  }

  private mutating func decodeFollowing(_ reader: inout ByteReader) throws(FormatError) {
    while reader.remaining > 0 {
      following = Following(
        archiveID: try reader.readIdentifier(), position: try reader.read(),
        term: try reader.read(), nonceLow: try reader.read(), nonceHigh: try reader.read(),
        checkpoint: try reader.read())
    }
  }

  private mutating func decodeCuts(_ reader: inout ByteReader) throws(FormatError) {
    let start = reader.offset
    var list = cuts
    while reader.remaining > 0 {
      list.append(
        Cut(
          number: try reader.read(), lastSequence: SequenceNumber(rawValue: try reader.read()),
          id: try reader.read()))
    }
    guard takeCuts(list) else { throw FormatError("invalid cuts of the log", at: start) }
  }
}
