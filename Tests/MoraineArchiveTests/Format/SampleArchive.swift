import Foundation
import MoraineArchive
import MoraineEngine
import MoraineFormat

/// A small archive of a real store, with every kind of object and of commit. It is put together
/// from backups of the store, because a backup is a cut of its log.
struct SampleArchive {
  /// The objects by their names.
  private(set) var objects: [ObjectName: [UInt8]] = [:]
  /// The backup with the state after a commit that ends at a cut, by position.
  private(set) var states: [UInt64: StoreState] = [:]
  let names: ArchiveNames

  private var samples: FormatSamples
  private let archiveID: StoreIdentifier
  private var term: UInt64 = 0
  private var position: UInt64 = 0
  private var checkpoint: UInt64 = 0
  private var nonces: [UInt64: Nonce] = [0: .zero]
  private var ends: [UInt64: LogPlace] = [:]
  /// The state that the archive has.
  private var current: StoreState?
  /// The objects of the segments that checkpoints have uploaded.
  private var segmentObjects: [SegmentObject: (name: DataObjectName, byteCount: Int)] = [:]

  /// A segment up to some length.
  private struct SegmentObject: Hashable {
    let salt: UInt64
    let lengthBytes: Int
  }

  init(seed: UInt64) throws {
    samples = FormatSamples(seed: seed)
    archiveID = samples.identifier()
    names = try ArchiveNames(root: ObjectName("archives/users"))
  }

  /// A mistake of the tests themselves.
  struct Unexpected: Error {
    let what: String
  }
}

/// A cut of a store: the files of a backup.
struct StoreState {
  let directory: URL
  let manifestBytes: [UInt8]
  let manifest: Manifest
  let headers: [SegmentNumber: SegmentHeader]
  let segments: [SegmentNumber: [UInt8]]
  let liveCount: Int
  /// The end of the last segment.
  let logEnd: LogPlace?

  init(of store: Store, in directory: URL) async throws {
    try await store.backup(to: directory.path)
    self.directory = directory
    manifestBytes = try [UInt8](Data(contentsOf: directory.appending(path: Manifest.fileName)))
    manifest = try manifestBytes.withUnsafeBytes { try Manifest(decoding: $0) }
    var headers: [SegmentNumber: SegmentHeader] = [:]
    var segments: [SegmentNumber: [UInt8]] = [:]
    for entry in manifest.segments {
      let file = directory.appending(path: entry.number.fileName)
      let bytes = try [UInt8](Data(contentsOf: file).prefix(Int(entry.lengthBytes)))
      segments[entry.number] = bytes
      headers[entry.number] = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
    }
    (self.headers, self.segments) = (headers, segments)
    logEnd = manifest.segments.last.flatMap { entry in
      headers[entry.number].map {
        LogPlace(
          segment: entry.number, epoch: entry.epoch, salt: $0.salt, offset: entry.lengthBytes)
      }
    }
    liveCount = try await store.keyspaceStatistics().reduce(0) { $0 + $1.count }
  }
}

extension SampleArchive {
  mutating func addIdentity(of state: StoreState) {
    let identity = ArchiveIdentity(
      archiveID: archiveID, storeID: state.manifest.storeID, createdMilliseconds: 1)
    objects[names.identity] = identity.encoded()
  }

  mutating func addHint() {
    let hint = HeadHint(
      archiveID: archiveID, term: term, checkpoint: checkpoint, position: position)
    objects[names.head] = hint.encoded()
  }

  /// Begins a term with a fence.
  ///
  /// - Parameters:
  ///   - base: the position of the state on which it builds.
  ///   - state: the state of the store, which is that of the base but for the first fence and for a
  ///     new epoch.
  mutating func addFence(base: UInt64, _ state: StoreState) {
    term += 1
    let record = TermRecord(
      archiveID: archiveID, term: term, nonce: samples.nonce(), createdMilliseconds: 2,
      instanceID: state.manifest.instanceID, writer: "test \(term)")
    objects[names.term(term)] = record.encoded()
    let before = states[base]
    var header = header(.fence, after: before, state)
    header.base = CommitHeader.Base(
      position: base, sequence: before?.manifest.lastSequence ?? .none,
      digest: before?.manifest.digest ?? StateDigest())
    header.logEnd = ends[base]
    if before?.manifest.epoch != state.manifest.epoch {
      header.instanceID = state.manifest.instanceID
    }
    // The first state comes with the first checkpoint.
    add(header, [], state)
    current = state
  }

  /// Adds what the log has more than the last state, in one commit or in two.
  mutating func addTail(_ state: StoreState, inTwo: Bool = false) throws {
    let before = current
    var (pieces, raw) = try pieces(from: before, to: state)
    let known = Set(before?.manifest.keyspaces.map(\.id) ?? [])
    let knownOrder = before?.manifest.ordered ?? []
    var keyspaces = state.manifest.keyspaces.filter { !known.contains($0.id) }.map {
      CommitHeader.Keyspace(
        id: $0.id, isOrdered: state.manifest.ordered.contains($0.id), name: $0.name)
    }
    if state.manifest.ordered.contains(0), !knownOrder.contains(0) {
      keyspaces.append(CommitHeader.Keyspace(id: 0, isOrdered: true, name: ""))
    }
    var header = header(.tail, after: before, state)
    header.keyspaces = keyspaces
    if inTwo {
      guard pieces.count > 1 else { throw Unexpected(what: "a tail of one piece") }
      var first = header
      let count = pieces.dropLast().reduce(0) { $0 + Int($1.length) }
      first.pieces = Array(pieces.dropLast())
      first.lastSequence =
        state.manifest.segments.filter { entry in
          first.pieces.contains { $0.segment == entry.number }
        }.map(\.lastSequence).max() ?? .none
      (first.endsAtCut, first.digest, first.liveCount) = (false, StateDigest(), 0)
      add(first, Array(raw[..<count]), nil)
      header.position = position + 1
      header.nonce = samples.nonce()
      header.previousNonce = first.nonce
      header.firstSequence = SequenceNumber(rawValue: first.lastSequence.rawValue + 1)
      header.keyspaces = []
      (pieces, raw) = (Array(pieces.suffix(1)), Array(raw[count...]))
    }
    header.pieces = pieces
    add(header, raw, state)
    current = state
  }

  /// Adds a commit without operations.
  mutating func add(_ kind: CommitHeader.Kind) throws {
    guard let current else { throw Unexpected(what: "no state") }
    add(header(kind, after: current, current), [], current)
  }

  /// Continues from a state whose log the archive does not have.
  mutating func addGap(_ state: StoreState) {
    var header = header(.gap, after: current, state)
    header.contents = addContents(of: state)
    header.logEnd = state.logEnd
    add(header, [], state)
    current = state
  }

  mutating func addCheckpoint() throws {
    guard let state = current, let nonce = nonces[position] else {
      throw Unexpected(what: "no state")
    }
    checkpoint += 1
    let record = CheckpointRecord(
      archiveID: archiveID, number: checkpoint, position: position, term: term,
      commitNonce: nonce, epoch: state.manifest.epoch, sequence: state.manifest.lastSequence,
      digest: state.manifest.digest, liveCount: UInt64(state.liveCount), milliseconds: 3,
      contents: addContents(of: state))
    objects[names.checkpoint(checkpoint)] = record.encoded()
  }
}

extension SampleArchive {
  private mutating func header(
    _ kind: CommitHeader.Kind, after before: StoreState?, _ state: StoreState
  ) -> CommitHeader {
    let last = before?.manifest.lastSequence.rawValue ?? 0
    var header = CommitHeader(
      kind, archiveID: archiveID, position: position + 1, term: term, nonce: samples.nonce(),
      previousNonce: nonces[position] ?? .zero, epoch: state.manifest.epoch,
      firstSequence: SequenceNumber(rawValue: last + 1),
      lastSequence: state.manifest.lastSequence)
    header.digest = state.manifest.digest
    header.liveCount = UInt64(state.liveCount)
    header.milliseconds = 4
    header.logEnd = ends[position]
    return header
  }

  private mutating func add(_ header: CommitHeader, _ raw: [UInt8], _ state: StoreState?) {
    var header = header
    if let piece = header.pieces.last { header.logEnd = piece.end }
    position = header.position
    nonces[position] = header.nonce
    ends[position] = header.logEnd
    states[position] = state
    objects[names.commit(position)] = Commit.encoded(
      header, rawBytes: raw, with: ContainerWriter(blockLength: 4096))
  }

  /// Returns the bytes that the log has gained.
  private func pieces(
    from before: StoreState?, to state: StoreState
  ) throws -> ([CommitHeader.Piece], [UInt8]) {
    var (pieces, raw): ([CommitHeader.Piece], [UInt8]) = ([], [])
    for entry in state.manifest.segments {
      guard let bytes = state.segments[entry.number], let header = state.headers[entry.number]
      else { throw Unexpected(what: "a segment is missing") }
      let old = before?.segments[entry.number] ?? []
      guard bytes.starts(with: old) else { throw Unexpected(what: "a segment has changed") }
      guard bytes.count > old.count else { continue }
      pieces.append(
        CommitHeader.Piece(
          segment: entry.number, epoch: entry.epoch, salt: header.salt, from: UInt64(old.count),
          length: UInt32(bytes.count - old.count)))
      raw += bytes[old.count...]
    }
    return (pieces, raw)
  }

  private mutating func addContents(of state: StoreState) -> ContentsReference {
    var segments: [CheckpointContents.Segment] = []
    for entry in state.manifest.segments {
      let salt = state.headers[entry.number]?.salt ?? 0
      let object = object(of: state.segments[entry.number] ?? [], salt: salt)
      segments.append(
        CheckpointContents.Segment(
          number: entry.number, epoch: entry.epoch, salt: salt, lengthBytes: entry.lengthBytes,
          object: object.name, objectByteCount: UInt64(object.byteCount)))
    }
    let contents = CheckpointContents(
      archiveID: archiveID, segments: segments, manifest: state.manifestBytes)
    let name = DataObjectName(term: term, nonce: samples.nonce())
    let bytes = contents.container()
    objects[names.data(name)] = bytes
    return ContentsReference(name: name, object: bytes)
  }

  private mutating func object(
    of bytes: [UInt8], salt: UInt64
  ) -> (name: DataObjectName, byteCount: Int) {
    let key = SegmentObject(salt: salt, lengthBytes: bytes.count)
    if let known = segmentObjects[key] { return known }
    let name = DataObjectName(term: term, nonce: samples.nonce())
    let container = ContainerWriter(blockLength: 4096).container(bytes)
    objects[names.data(name)] = container
    segmentObjects[key] = (name, container.count)
    return (name, container.count)
  }
}
