/// The head of an index checkpoint file: the segments that the checkpoint covers, the index's
/// shape, and a checksum for each page of the index that follows. Layout: `FileFormat.md`, "Index
/// checkpoint".
package struct CheckpointHeader: Equatable, Sendable {
  /// The figures of one segment that the checkpoint covers.
  package struct Segment: Equatable, Sendable {
    package var number: SegmentNumber
    /// The salt in the segment's header. A segment with the same number and another salt is a
    /// different segment.
    package var salt: UInt64 = 0
    package var epoch: UInt64 = 0
    /// The index contains the records before this offset.
    package var endOffset: UInt64 = 0
    package var recordCount: UInt64 = 0
    package var firstSequence: UInt64 = 0
    package var lastSequence: UInt64 = 0
    package var liveBytes: UInt64 = 0
    package var deleteBytes: UInt64 = 0
    package var digest = StateDigest()
    package var earliestExpiry = UInt64.max
    package var cleanedThrough: UInt64 = 0
    /// The number by which the index's entries name the segment.
    package var slot: UInt32 = 0
    /// Checksum of the last bytes before ``endOffset``, for a segment that was not sealed; see
    /// ``CheckpointHeader/tailLength``.
    package var tailChecksum: UInt32 = 0

    package init(number: SegmentNumber) {
      self.number = number
    }
  }

  /// The live records of a keyspace other than the unnamed one.
  package struct Keyspace: Equatable, Sendable {
    package var id: UInt16
    package var recordCount: UInt64
    package var liveBytes: UInt64

    package init(id: UInt16, recordCount: UInt64, liveBytes: UInt64) {
      self.id = id
      self.recordCount = recordCount
      self.liveBytes = liveBytes
    }
  }

  /// The tree of an ordered keyspace.
  package struct Tree: Equatable, Sendable {
    package var keyspace: UInt16
    /// Number of levels above the leaves.
    package var height: UInt8 = 0
    /// Number of the root's node; meaningless without entries.
    package var root: UInt32 = 0
    package var entryCount: UInt64 = 0

    package init(keyspace: UInt16) {
      self.keyspace = keyspace
    }
  }

  package static let fixedLength = 128
  /// The version of a checkpoint with trees. A checkpoint without trees has ``formatVersion``.
  private static let versionWithTrees: UInt16 = 2
  /// The number of bytes before ``Segment/endOffset`` that a segment's tail checksum covers, if
  /// that many follow the segment's header.
  package static let tailLength = 4096
  static let magic = Array("MORAINEI".utf8)
  static let segmentLength = 112
  static let keyspaceLength = 24
  static let treeLength = 16
  static let keyspacesUncounted: UInt16 = 0xFFFF
  /// A page has 1024 buckets of 64 bytes, or 16 nodes of trees.
  package static let pageBytes = 65_536
  package static let nodeBytes = 4096
  package static let nodesPerPage = pageBytes / nodeBytes
  /// The height of a tree that no log needs: each branch of a new tree has at least seven children.
  private static let treeHeightLimit: UInt8 = 12

  package var storeID: StoreIdentifier
  package var epoch: UInt64 = 0
  package var lastSequence: UInt64 = 0
  package var digest = StateDigest()
  package var keyCount: UInt64 = 0
  package var level: UInt8 = 0
  package var tagShift: UInt8 = 0
  package var split: UInt64 = 0
  package var bucketCount: UInt64 = 0
  package var overflowCount: UInt64 = 0
  /// A random number that is part of every page's checksum.
  package var salt: UInt64 = 0
  package var segments: [Segment] = []
  /// The keyspaces that contain live records; nil when the records were not counted.
  package var keyspaces: [Keyspace]? = []
  /// The trees of all ordered keyspaces, by rising number of the keyspace; one without entries too.
  package var trees: [Tree] = []
  /// Number of nodes of all trees.
  package var nodeCount: UInt32 = 0
  /// Checksums of the buckets' pages, then of the overflow buckets' pages, then of the trees'
  /// pages.
  package var pageChecksums: [UInt32] = []

  package init(storeID: StoreIdentifier) {
    self.storeID = storeID
  }

  package var bucketPageCount: Int { Self.pages(bucketCount) }
  package var overflowPageCount: Int { Self.pages(overflowCount) }

  package var treePageCount: Int { (Int(nodeCount) + Self.nodesPerPage - 1) / Self.nodesPerPage }

  static func pages(_ buckets: UInt64) -> Int {
    (Int(clamping: buckets) * 64 + pageBytes - 1) / pageBytes
  }

  /// Length of the head, and offset of the first page: a multiple of 4096.
  package var lengthBytes: Int {
    let used =
      Self.fixedLength + segments.count * Self.segmentLength
      + (keyspaces?.count ?? 0) * Self.keyspaceLength + trees.count * Self.treeLength
      + pageChecksums.count * 4 + 4
    return (used + 4095) & ~4095
  }

  /// Offset of the overflow buckets' pages.
  package var overflowOffset: Int { lengthBytes + bucketPageCount * Self.pageBytes }

  /// Offset of the trees' pages.
  package var treeOffset: Int { overflowOffset + overflowPageCount * Self.pageBytes }

  /// Length of the whole file.
  package var fileLengthBytes: Int { treeOffset + treePageCount * Self.pageBytes }

  /// Returns the checksum of a page.
  ///
  /// - Parameter number: the page's number, counted through all parts.
  package func checksum(ofPage number: Int, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
    var checksum = Checksum()
    checksum.update(salt)
    checksum.update(UInt64(number))
    checksum.update(bytes)
    return checksum.value
  }
}

extension CheckpointHeader {
  package func encoded() -> [UInt8] {
    var writer = ByteWriter()
    writer.append(contentsOf: Self.magic)
    writer.append(trees.isEmpty ? formatVersion : Self.versionWithTrees)
    writer.append(UInt16(0))
    writer.append(UInt32(lengthBytes))
    writer.append(storeID)
    writer.append(epoch)
    writer.append(lastSequence)
    writer.append(digest)
    writer.append(keyCount)
    writer.append(level)
    writer.append(tagShift)
    writer.append(UInt16(0))
    writer.append(UInt32(segments.count))
    writer.append(split)
    writer.append(bucketCount)
    writer.append(overflowCount)
    writer.append(UInt32(pageChecksums.count))
    writer.append(salt)
    writer.append(keyspaces.map { UInt16($0.count) } ?? Self.keyspacesUncounted)
    writer.append(UInt16(trees.count))
    writer.append(nodeCount)
    writer.appendZeros(Self.fixedLength - writer.bytes.count)
    for segment in segments { append(segment, to: &writer) }
    for keyspace in keyspaces ?? [] { append(keyspace, to: &writer) }
    for tree in trees { append(tree, to: &writer) }
    for checksum in pageChecksums { writer.append(checksum) }
    writer.appendZeros(lengthBytes - 4 - writer.bytes.count)
    writer.append(Checksum.of(writer.bytes))
    return writer.bytes
  }

  private func append(_ segment: Segment, to writer: inout ByteWriter) {
    writer.append(segment.number.rawValue)
    writer.append(segment.salt)
    writer.append(segment.epoch)
    writer.append(segment.endOffset)
    writer.append(segment.recordCount)
    writer.append(segment.firstSequence)
    writer.append(segment.lastSequence)
    writer.append(segment.liveBytes)
    writer.append(segment.deleteBytes)
    writer.append(segment.digest)
    writer.append(segment.earliestExpiry)
    writer.append(segment.cleanedThrough)
    writer.append(segment.slot)
    writer.append(segment.tailChecksum)
  }

  private func append(_ keyspace: Keyspace, to writer: inout ByteWriter) {
    writer.append(keyspace.id)
    writer.appendZeros(6)
    writer.append(keyspace.recordCount)
    writer.append(keyspace.liveBytes)
  }

  private func append(_ tree: Tree, to writer: inout ByteWriter) {
    writer.append(tree.keyspace)
    writer.append(tree.height)
    writer.append(UInt8(0))
    writer.append(tree.root)
    writer.append(tree.entryCount)
  }

  /// Returns the number of bytes that ``init(decoding:)`` needs, as the first 128 bytes state it.
  /// No checksum has verified that number yet.
  package static func claimedLength(_ bytes: UnsafeRawBufferPointer) throws(FormatError) -> Int {
    guard bytes.count >= fixedLength else {
      throw FormatError("the file is shorter than a checkpoint header", at: UInt64(bytes.count))
    }
    let claim = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 12, as: UInt32.self)))
    guard claim >= 4096, claim % 4096 == 0 else {
      throw FormatError("invalid header length \(claim)", at: 12)
    }
    return claim
  }

  /// Reads the whole head of a checkpoint.
  package init(decoding bytes: UnsafeRawBufferPointer) throws(FormatError) {
    guard try Self.claimedLength(bytes) == bytes.count else {
      throw FormatError("the file ends inside its header", at: UInt64(bytes.count))
    }
    let body = UnsafeRawBufferPointer(rebasing: bytes[..<(bytes.count - 4)])
    let stored = bytes.loadUnaligned(fromByteOffset: body.count, as: UInt32.self)
    guard Checksum.of(body) == UInt32(littleEndian: stored) else {
      throw FormatError("checkpoint checksum does not match", at: UInt64(body.count))
    }
    var reader = ByteReader(body)
    guard try reader.take(8).elementsEqual(Self.magic) else {
      throw FormatError("not an index checkpoint (wrong magic)", at: 0)
    }
    let version: UInt16 = try reader.read()
    guard version == formatVersion || version == Self.versionWithTrees else {
      throw FormatError(newer: "unknown checkpoint version", at: 8)
    }
    _ = try reader.take(6)
    self.init(storeID: try reader.readIdentifier())
    let counts = try readFields(&reader)
    guard (counts.trees > 0) == (version == Self.versionWithTrees) else {
      throw FormatError("the version does not fit the number of trees", at: 118)
    }
    // Check the counts against the remaining bytes before anything is allocated for them.
    let isCounted = counts.keyspaces != Int(Self.keyspacesUncounted)
    let keyspaceCount = isCounted ? counts.keyspaces : 0
    guard
      counts.segments * Self.segmentLength + keyspaceCount * Self.keyspaceLength
        + counts.trees * Self.treeLength + counts.pages * 4 <= reader.remaining
    else { throw FormatError("the file is too short for its segments and pages", at: 76) }
    for _ in 0..<counts.segments { segments.append(try Self.readSegment(&reader)) }
    for _ in 0..<keyspaceCount { keyspaces?.append(try Self.readKeyspace(&reader)) }
    if !isCounted { keyspaces = nil }
    for _ in 0..<counts.trees { trees.append(try Self.readTree(&reader)) }
    for _ in 0..<counts.pages { pageChecksums.append(try reader.read()) }
    guard lengthBytes == bytes.count, isPlausible else {
      throw FormatError("header fields contradict each other", at: 72)
    }
  }

  private mutating func readFields(
    _ reader: inout ByteReader
  ) throws(FormatError) -> (segments: Int, keyspaces: Int, trees: Int, pages: Int) {
    epoch = try reader.read()
    lastSequence = try reader.read()
    digest = try reader.readDigest()
    keyCount = try reader.read()
    level = try reader.read()
    tagShift = try reader.read()
    _ = try reader.take(2)
    let segmentCount: UInt32 = try reader.read()
    split = try reader.read()
    bucketCount = try reader.read()
    overflowCount = try reader.read()
    let pageCount: UInt32 = try reader.read()
    salt = try reader.read()
    let keyspaceCount: UInt16 = try reader.read()
    let treeCount: UInt16 = try reader.read()
    nodeCount = try reader.read()
    _ = try reader.take(Self.fixedLength - reader.position)
    return (Int(segmentCount), Int(keyspaceCount), Int(treeCount), Int(pageCount))
  }

  private static func readSegment(_ reader: inout ByteReader) throws(FormatError) -> Segment {
    var segment = Segment(number: SegmentNumber(rawValue: try reader.read()))
    segment.salt = try reader.read()
    segment.epoch = try reader.read()
    segment.endOffset = try reader.read()
    segment.recordCount = try reader.read()
    segment.firstSequence = try reader.read()
    segment.lastSequence = try reader.read()
    segment.liveBytes = try reader.read()
    segment.deleteBytes = try reader.read()
    segment.digest = try reader.readDigest()
    segment.earliestExpiry = try reader.read()
    segment.cleanedThrough = try reader.read()
    segment.slot = try reader.read()
    segment.tailChecksum = try reader.read()
    return segment
  }

  private static func readKeyspace(_ reader: inout ByteReader) throws(FormatError) -> Keyspace {
    let id: UInt16 = try reader.read()
    _ = try reader.take(6)
    return Keyspace(id: id, recordCount: try reader.read(), liveBytes: try reader.read())
  }

  private static func readTree(_ reader: inout ByteReader) throws(FormatError) -> Tree {
    var tree = Tree(keyspace: try reader.read())
    tree.height = try reader.read()
    _ = try reader.take(1)
    tree.root = try reader.read()
    tree.entryCount = try reader.read()
    return tree
  }

  /// Whether an index can have this shape, and its segments these figures.
  private var isPlausible: Bool {
    let slots = Set(segments.map(\.slot))
    return level >= 10 && level < 40 && tagShift <= level && split < 1 << UInt64(level)
      && bucketCount == 1 << UInt64(level) + split && overflowCount <= 1 << 28
      && pageChecksums.count == bucketPageCount + overflowPageCount + treePageCount
      && slots.count == segments.count && slots.allSatisfy { $0 < UInt32(StoreLimits.segmentCount) }
      && keyCount <= (bucketCount + overflowCount) * 8
      && lastSequence <= SequenceNumber.max.rawValue
      && segments.allSatisfy { $0.isPlausible(through: lastSequence) } && hasPlausibleTrees
      && hasPlausibleKeyspaces
  }
}

extension CheckpointHeader {
  /// Whether the trees have roots of their own among the nodes, heights and counts that a log can
  /// have, and rising keyspaces.
  private var hasPlausibleTrees: Bool {
    guard nodeCount < 1 << 28 else { return false }
    let roots = trees.filter { $0.entryCount > 0 }
    let keyspaces = trees.map(\.keyspace)
    return zip(keyspaces, keyspaces.dropFirst()).allSatisfy { $0 < $1 }
      && Set(roots.map(\.root)).count == roots.count
      && roots.allSatisfy {
        $0.root < nodeCount && $0.height <= Self.treeHeightLimit && $0.entryCount < 1 << 31
      }
      && (nodeCount == 0) == roots.isEmpty
  }

  /// Whether the index has the entries of ordered keyspaces in trees, and no others: a keyspace
  /// without a tree must have had no record when the checkpoint was written.
  package func hasTrees(of ordered: [UInt16]) -> Bool {
    let own = Set(trees.map(\.keyspace))
    let missing = Set(ordered).subtracting(own)
    guard own.isSubset(of: ordered) else { return false }
    if missing.isEmpty { return true }
    guard let keyspaces else { return false }
    let named = keyspaces.reduce(0) { $0 &+ $1.recordCount }
    return missing.isDisjoint(with: keyspaces.map(\.id))
      && (!missing.contains(0) || keyCount &+ treeEntryCount == named)
      && missing.allSatisfy { $0 < 0xFF00 }
  }

  /// The number of entries in all trees.
  package var treeEntryCount: UInt64 { trees.reduce(0) { $0 &+ $1.entryCount } }

  /// Whether the keyspaces together hold no more records and bytes than the store, their ids rise,
  /// and the ordered ones have as many records as their trees.
  private var hasPlausibleKeyspaces: Bool {
    var records = keyCount &+ treeEntryCount
    var bytes = segments.reduce(0) { $0 &+ $1.liveBytes }
    if let keyspaces {
      let counts = Dictionary(
        keyspaces.map { ($0.id, $0.recordCount) }, uniquingKeysWith: { $1 })
      guard
        trees.allSatisfy({
          // The keyspaces of the system are not counted.
          $0.keyspace == 0 || $0.keyspace >= 0xFF00
            || counts[$0.keyspace] ?? 0 == $0.entryCount
        })
      else { return false }
    }
    var last: UInt16 = 0
    for keyspace in keyspaces ?? [] {
      guard keyspace.id > last, keyspace.recordCount <= records, keyspace.liveBytes <= bytes
      else { return false }
      last = keyspace.id
      records -= keyspace.recordCount
      bytes -= keyspace.liveBytes
    }
    return true
  }
}

extension CheckpointHeader.Segment {
  /// Returns whether the segment's figures fit into its length, and its sequence numbers are not
  /// above `last`.
  fileprivate func isPlausible(through last: UInt64) -> Bool {
    liveBytes <= endOffset && deleteBytes <= endOffset
      && recordCount <= endOffset / UInt64(RecordHeader.fixedLength)
      && firstSequence <= lastSequence && lastSequence <= last && cleanedThrough <= last
  }
}
