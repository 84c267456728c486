package import MoraineFormat

/// The header of a commit: the object `log/<position>`. The commits of an archive are its history.
/// Layout: `ArchiveFormat.md`, "Commit".
package struct CommitHeader: Equatable, Sendable {
  /// The purpose of a commit.
  package enum Kind: UInt8, Sendable, CaseIterable {
    /// The writer of a new term begins here, on the base that the commit names.
    case fence = 1
    /// Pieces of the log after the last commit.
    case tail = 2
    /// Bytes between the last commit and this one are lost to the archive. The state continues from
    /// ``CommitHeader/contents``.
    case gap = 3
    /// A sign that the writer is running.
    case beat = 4
    /// The writer ended in order.
    case close = 5

    /// Whether a commit of this kind may contain pieces.
    package var hasPieces: Bool { self == .fence || self == .tail }
  }

  /// A state of an archive on which a fence builds.
  package struct Base: Hashable, Sendable {
    /// The position of the commit with the state; 0 for the empty state before the first commit.
    package var position: UInt64
    package var sequence: SequenceNumber
    package var digest: StateDigest

    package init(position: UInt64, sequence: SequenceNumber, digest: StateDigest) {
      (self.position, self.sequence, self.digest) = (position, sequence, digest)
    }

    /// The empty state before the first commit.
    package static let none = Base(position: 0, sequence: .none, digest: StateDigest())
  }

  /// A keyspace that the archive does not know yet.
  package struct Keyspace: Hashable, Sendable {
    /// The number; 0 for the unnamed keyspace.
    package var id: UInt16
    package var isOrdered: Bool
    package var name: String

    package init(id: UInt16, isOrdered: Bool, name: String) {
      (self.id, self.isOrdered, self.name) = (id, isOrdered, name)
    }
  }

  /// Bytes of one segment. They are in the payload, after those of the pieces before it.
  package struct Piece: Hashable, Sendable {
    package var segment: SegmentNumber
    package var epoch: UInt64
    /// The salt of the segment's header.
    package var salt: UInt64
    /// The place of the first byte in the segment.
    package var from: UInt64
    /// The number of bytes, at least 1.
    package var length: UInt32

    package init(segment: SegmentNumber, epoch: UInt64, salt: UInt64, from: UInt64, length: UInt32)
    {
      (self.segment, self.epoch, self.salt) = (segment, epoch, salt)
      (self.from, self.length) = (from, length)
    }

    /// The place after the last byte. The piece must be one of a header without a violation.
    package var end: LogPlace {
      LogPlace(segment: segment, epoch: epoch, salt: salt, offset: from + UInt64(length))
    }
  }

  package var kind: Kind
  /// Whether the commit ends at a cut: a state of the store with a digest and a count. A cut that
  /// is too large for one commit takes several, and only the last of them ends at it.
  package var endsAtCut = true
  package var archiveID: StoreIdentifier
  /// The position in the log of the archive, counted from 1.
  package var position: UInt64
  /// The term of the writer.
  package var term: UInt64
  /// A random number that names this commit.
  package var nonce: Nonce
  /// The nonce of the commit at the position before; zero at position 1 only.
  package var previousNonce: Nonce
  /// The epoch of the store.
  package var epoch: UInt64
  /// The first sequence number after those of the state before this commit.
  package var firstSequence: SequenceNumber
  /// The last sequence number of the state after this commit; one less than ``firstSequence`` when
  /// the commit has no operations.
  package var lastSequence: SequenceNumber
  /// The state digest after this commit; zero unless it ends at a cut.
  package var digest = StateDigest()
  /// The number of live records after this commit; zero unless it ends at a cut.
  package var liveCount: UInt64 = 0
  /// The time of the cut since 1970: a label, not used for any order.
  package var milliseconds: UInt64 = 0
  /// The state on which a fence builds.
  package var base: Base = .none
  /// The instance id of an epoch that a fence begins.
  package var instanceID: StoreIdentifier?
  /// The end of the log after this commit; nil while the archive has no byte of the log. With
  /// pieces, it is the end of one of them.
  package var logEnd: LogPlace?
  package var keyspaces: [Keyspace] = []
  /// The state after a gap.
  package var contents: ContentsReference?
  package var pieces: [Piece] = []
  /// The length of the payload, the container of the pieces' bytes; 0 without pieces.
  package var payloadByteCount: UInt64 = 0

  package init(
    _ kind: Kind, archiveID: StoreIdentifier, position: UInt64, term: UInt64, nonce: Nonce,
    previousNonce: Nonce, epoch: UInt64, firstSequence: SequenceNumber,
    lastSequence: SequenceNumber
  ) {
    (self.kind, self.archiveID, self.position, self.term) = (kind, archiveID, position, term)
    (self.nonce, self.previousNonce, self.epoch) = (nonce, previousNonce, epoch)
    (self.firstSequence, self.lastSequence) = (firstSequence, lastSequence)
  }

  static let magic = Array("MORAINEC".utf8)
  /// Length of the part before the keyspaces.
  package static let fixedLength = 224
  /// Length of a piece's entry.
  package static let pieceLength = 36
  private static let cutFlag: UInt8 = 1 << 0
  private static let orderedFlag: UInt8 = 1 << 0
  private static let noInstance = StoreIdentifier(low: 0, high: 0)
}

extension CommitHeader {
  /// Length of the encoded header, and offset of the payload.
  package var headerByteCount: Int {
    let names = keyspaces.reduce(0) { $0 + 5 + $1.name.utf8.count }
    let reference = 2 + (contents == nil ? 0 : DataObjectName.lengthBytes + 12)
    return Self.fixedLength + 2 + names + reference + 4 + pieces.count * Self.pieceLength + 4
  }

  /// Sum of the lengths of the pieces; nil when it exceeds the limit.
  package var rawByteCount: Int? {
    var sum = 0
    for piece in pieces {
      let (total, overflow) = sum.addingReportingOverflow(Int(piece.length))
      guard !overflow, total <= ArchiveLimits.payloadBytes else { return nil }
      sum = total
    }
    return sum
  }

  /// Place of each piece in the raw payload.
  package var pieceRanges: [Range<Int>] {
    var start = 0
    return pieces.map { piece in
      defer { start += Int(piece.length) }
      return start..<(start + Int(piece.length))
    }
  }

  /// The reason why a header with these fields cannot exist; nil when it can.
  ///
  /// A writer splits what exceeds a limit into several commits.
  package var violation: String? {
    if let reason = chainViolation ?? keyspaceViolation ?? pieceViolation { return reason }
    if kind != .fence && (base != .none || instanceID != nil) {
      return "a base or an instance id although it is no fence"
    }
    if base.position == 0 && base != .none { return "a state before the first commit" }
    if kind == .fence && base.position >= position { return "a base that is not before it" }
    if (kind == .gap) != (contents != nil) {
      return "contents although it is no gap, or none although it is one"
    }
    if let contents, contents.name.term > term { return "contents of a later term" }
    if !endsAtCut && (digest != StateDigest() || liveCount != 0 || !kind.hasPieces) {
      return "the state of a cut although it does not end at one"
    }
    if headerByteCount > ArchiveLimits.commitHeaderBytes { return "a header above the limit" }
    return nil
  }

  private var chainViolation: String? {
    guard (1...ArchiveLimits.position).contains(position) else { return "invalid position" }
    guard (1...ArchiveLimits.term).contains(term) else { return "invalid term" }
    guard (1...StoreLimits.manifestCounter).contains(epoch) else { return "invalid epoch" }
    guard nonce != .zero, (previousNonce == .zero) == (position == 1) else {
      return "invalid nonce"
    }
    guard position > 1 || kind == .fence else { return "the first position, and is no fence" }
    guard lastSequence <= .max, firstSequence.rawValue >= 1,
      firstSequence.rawValue <= lastSequence.rawValue + 1, base.sequence <= .max
    else { return "invalid sequence numbers" }
    guard kind != .fence || firstSequence.rawValue == base.sequence.rawValue + 1 else {
      return "a first number that does not follow its base"
    }
    guard firstSequence.rawValue > lastSequence.rawValue || kind != .beat && kind != .close else {
      return "operations although its kind has none"
    }
    return nil
  }

  private var keyspaceViolation: String? {
    guard keyspaces.count <= Int(UInt16.max) else { return "too many keyspaces" }
    let isValid = keyspaces.allSatisfy {
      ($0.id == 0) == $0.name.isEmpty && $0.name.utf8.count <= ArchiveLimits.textLengthBytes
        && $0.id < Manifest.Keyspace.firstSystemID
    }
    guard isValid, Set(keyspaces.map(\.id)).count == keyspaces.count,
      Set(keyspaces.map(\.name)).count == keyspaces.count
    else { return "invalid keyspaces, or one that occurs twice" }
    return nil
  }

  private var pieceViolation: String? {
    guard pieces.isEmpty || kind.hasPieces else { return "pieces although its kind has none" }
    guard pieces.count <= ArchiveLimits.pieceCount, rawByteCount != nil else {
      return "pieces above the limit"
    }
    guard pieces.isEmpty == (payloadByteCount == 0) else {
      return "pieces without a payload, or a payload without pieces"
    }
    for piece in pieces {
      let (end, overflow) = piece.from.addingReportingOverflow(UInt64(piece.length))
      guard (1...StoreLimits.manifestCounter).contains(piece.segment.rawValue),
        (1...epoch).contains(piece.epoch), piece.length > 0, !overflow,
        end <= StoreLimits.segmentLengthBytes
      else { return "an invalid piece of segment \(piece.segment)" }
    }
    guard Set(pieces.map(\.segment)).count == pieces.count else {
      return "two pieces of one segment"
    }
    guard logEnd?.isPossible(inEpoch: epoch) ?? true else { return "an invalid end of the log" }
    guard pieces.isEmpty || pieces.contains(where: { $0.end == logEnd }) else {
      return "an end of the log at which no piece ends"
    }
    return nil
  }
}

extension CommitHeader {
  /// Returns the header's bytes. It must have no ``violation``.
  package func encoded() -> [UInt8] {
    if let violation { preconditionFailure("a commit has \(violation)") }
    var writer = ByteWriter()
    writer.reserve(headerByteCount)
    writer.append(contentsOf: Self.magic)
    writer.append(ArchiveLimits.version)
    writer.append(kind.rawValue)
    writer.append(endsAtCut ? Self.cutFlag : 0)
    writer.append(UInt32(headerByteCount))
    writer.append(archiveID)
    writer.append(position)
    writer.append(term)
    writer.append(nonce)
    writer.append(previousNonce)
    writer.append(epoch)
    writer.append(firstSequence.rawValue)
    writer.append(lastSequence.rawValue)
    writer.append(digest)
    writer.append(liveCount)
    writer.append(milliseconds)
    writer.append(base.position)
    writer.append(base.sequence.rawValue)
    writer.append(base.digest)
    writer.append(instanceID ?? Self.noInstance)
    writer.append(logEnd)
    writer.append(payloadByteCount)
    assert(writer.bytes.count == Self.fixedLength, "the layout of a commit changed")
    encodeLists(to: &writer)
    writer.append(Checksum.of(writer.bytes))
    assert(writer.bytes.count == headerByteCount, "the length of a commit's header is wrong")
    return writer.bytes
  }

  private func encodeLists(to writer: inout ByteWriter) {
    writer.append(UInt16(keyspaces.count))
    for keyspace in keyspaces {
      writer.append(keyspace.id)
      writer.append(keyspace.isOrdered ? Self.orderedFlag : 0)
      writer.append(text: keyspace.name)
    }
    if let contents { writer.append(contents) } else { writer.append(UInt16(0)) }
    writer.append(UInt32(pieces.count))
    for piece in pieces {
      writer.append(piece.segment.rawValue)
      writer.append(piece.epoch)
      writer.append(piece.salt)
      writer.append(piece.from)
      writer.append(piece.length)
    }
  }
}

extension CommitHeader {
  /// Returns the number of bytes that ``init(decoding:)`` needs, as the first 16 bytes state it, so
  /// that a caller can read just those. The number is at most 16 MiB, but no checksum has verified
  /// it yet.
  package static func claimedLength(_ bytes: UnsafeRawBufferPointer) throws(FormatError) -> Int {
    guard bytes.count >= 16 else {
      throw FormatError("the object is shorter than a commit", at: UInt64(bytes.count))
    }
    guard bytes.starts(with: magic) else {
      throw FormatError("the object is not a commit (wrong magic)", at: 0)
    }
    let claim = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)))
    guard claim >= fixedLength + 12, claim <= ArchiveLimits.commitHeaderBytes else {
      throw FormatError("invalid length \(claim) of a commit's header", at: 12)
    }
    return claim
  }

  /// Reads the header from the beginning of a commit. The payload may be missing.
  ///
  /// The checksum is verified before the version: a damaged version number is damage, not a newer
  /// version.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    let length = try Self.claimedLength(bytes)
    guard bytes.count >= length else {
      throw FormatError("the object ends inside the header of a commit", at: UInt64(bytes.count))
    }
    let body = UnsafeRawBufferPointer(rebasing: bytes[..<(length - 4)])
    let stored = bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self)
    guard Checksum.of(body) == UInt32(littleEndian: stored) else {
      throw FormatError(
        "the checksum of a commit's header does not match", at: UInt64(body.count))
    }
    var reader = ByteReader(body)
    _ = try reader.take(Self.magic.count)
    let version: UInt16 = try reader.read()
    guard version == ArchiveLimits.version else {
      throw FormatError(newer: "version \(version) of a commit", at: 8)
    }
    let kindByte: UInt8 = try reader.read()
    guard let kind = Kind(rawValue: kindByte) else {
      throw FormatError(newer: "kind \(kindByte) of a commit", at: 10)
    }
    let flags: UInt8 = try reader.read()
    guard flags & ~Self.cutFlag == 0 else {
      throw FormatError(newer: "flags of a commit that this version does not know", at: 11)
    }
    _ = try reader.read(UInt32.self)
    try self.init(kind, decodingFields: &reader)
    endsAtCut = flags & Self.cutFlag != 0
    try decodeLists(&reader)
    guard reader.remaining == 0 else {
      throw FormatError("bytes after the last piece of a commit", at: reader.offset)
    }
    if let violation { throw FormatError("a commit has \(violation)", at: 0) }
  }

  private init(_ kind: Kind, decodingFields reader: inout ByteReader) throws(FormatError) {
    self.init(
      kind, archiveID: try reader.readIdentifier(), position: try reader.read(),
      term: try reader.read(), nonce: try reader.readNonce(),
      previousNonce: try reader.readNonce(), epoch: try reader.read(),
      firstSequence: try reader.readSequence(), lastSequence: try reader.readSequence())
    digest = try reader.readDigest()
    liveCount = try reader.read()
    milliseconds = try reader.read()
    base = Base(
      position: try reader.read(), sequence: try reader.readSequence(),
      digest: try reader.readDigest())
    let instance = try reader.readIdentifier()
    instanceID = instance == Self.noInstance ? nil : instance
    logEnd = try reader.readLogPlace()
    payloadByteCount = try reader.read()
  }

  private mutating func decodeLists(_ reader: inout ByteReader) throws(FormatError) {
    let keyspaceCount: UInt16 = try reader.read()
    for _ in 0..<keyspaceCount { keyspaces.append(try Self.readKeyspace(&reader)) }
    contents = try Self.readContents(&reader)
    let start = reader.offset
    let pieceCount: UInt32 = try reader.read()
    guard Int(pieceCount) <= ArchiveLimits.pieceCount,
      reader.remaining == Int(pieceCount) * Self.pieceLength
    else { throw FormatError("\(pieceCount) pieces do not fit a commit's header", at: start) }
    pieces.reserveCapacity(Int(pieceCount))
    for _ in 0..<pieceCount {
      pieces.append(
        Piece(
          segment: SegmentNumber(rawValue: try reader.read()), epoch: try reader.read(),
          salt: try reader.read(), from: try reader.read(), length: try reader.read()))
    }
  }

  private static func readKeyspace(_ reader: inout ByteReader) throws(FormatError) -> Keyspace {
    let id: UInt16 = try reader.read()
    let start = reader.offset
    let flags: UInt8 = try reader.read()
    guard flags & ~orderedFlag == 0 else {
      throw FormatError(newer: "flags of keyspace \(id)", at: start)
    }
    return Keyspace(
      id: id, isOrdered: flags & orderedFlag != 0,
      name: try reader.readText("the name of a keyspace"))
  }

  /// Reads a reference, or a length of zero.
  private static func readContents(
    _ reader: inout ByteReader
  ) throws(FormatError) -> ContentsReference? {
    var ahead = reader
    guard try ahead.read(UInt16.self) == 0 else { return try reader.readContentsReference() }
    reader = ahead
    return nil
  }
}
