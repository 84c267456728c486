import MoraineEngine
import MoraineFormat
import Synchronization

/// The upload of a checkpoint's contents, beside the shipping of the log.
struct CheckpointUpload {
  let state: ArchivedState
  let milliseconds: UInt64
  /// The bytes of the log between the checkpoint before and this one.
  let coveredBytes: Int
  /// Whether the task has ended.
  let hasEnded: EndFlag
  let task: Task<Result<UploadedContents, ArchiveError>, Never>
}

/// Whether a task has ended.
///
/// Released and acquired: what the task did comes before.
final class EndFlag: Sendable {
  private let flag = Atomic<Bool>(false)

  var isSet: Bool { flag.load(ordering: .acquiring) }

  func set() { flag.store(true, ordering: .releasing) }
}

/// A checkpoint whose request is open.
struct PendingCheckpoint {
  let state: ArchivedState
  let uploaded: UploadedContents
  let milliseconds: UInt64
  let coveredBytes: Int
  var action: Shipping.Action
}

/// The segments that were uploaded for a checkpoint that does not exist yet. When the upload fails,
/// the next one goes on after them.
final class UploadedSegments: Sendable {
  private let segments = Mutex<[CheckpointContents.Segment]>([])

  var all: [CheckpointContents.Segment] { segments.withLock { $0 } }

  func add(_ segment: CheckpointContents.Segment) { segments.withLock { $0.append(segment) } }
}

struct UploadedContents: Sendable {
  let reference: ContentsReference
  let segments: [CheckpointContents.Segment]
}

extension ArchiveWriter {
  /// Begins to upload the state that the archive has now.
  func beginUpload(_ cut: LogCut) {
    precondition(upload == nil, "another checkpoint is under way")
    // An append that failed may have used up a number since the last commit.
    precondition(cut.sequence >= shipped.sequence, "a checkpoint has the state of a commit")
    guard let term = machine?.state.term else { preconditionFailure("no machine runs") }
    let work = ContentsUpload(
      objects: objects, store: store, term: term, known: checkpointed.objects ?? [],
      uploaded: uploaded)
    var manifest = cut.manifest
    manifest.lastSequence = shipped.sequence
    assert(!manifest.endsBeforeItsFigures, "a checkpoint ends before an operation of its state")
    let contents = manifest.encoded()
    let flag = EndFlag()
    upload = CheckpointUpload(
      state: shipped, milliseconds: configuration.milliseconds(),
      coveredBytes: checkpointed.bytes, hasEnded: flag,
      task: Task {
        defer { flag.set() }
        do throws(ArchiveError) { return .success(try await work.run(cut, contents)) } catch {
          return .failure(error)
        }
      })
  }

  /// Creates the checkpoint whose upload has ended.
  func finishUpload() async throws(ArchiveError) {
    guard let open = upload else { return }
    let result = await open.task.value
    // Another call may have finished it in between.
    guard upload != nil else { return }
    let uploaded: UploadedContents
    do throws(ArchiveError) { uploaded = try result.get() } catch {
      upload = nil
      throw error
    }
    upload = nil
    try await finishPending()
    try await createCheckpoint(of: open.state, uploaded, open.milliseconds, open.coveredBytes)
  }

  /// Creates the checkpoint if its upload has ended.
  func finishUploadIfDone() async throws(ArchiveError) {
    guard let open = upload, open.hasEnded.isSet else { return }
    try await finishUpload()
  }

  /// Reads which objects the newest checkpoint has, so that they are not uploaded again.
  func learnObjects() async throws(ArchiveError) {
    guard checkpointed.objects == nil, let newest = machine?.state.checkpoint else { return }
    guard let record = try await objects.checkpoint(newest.number) else { return }
    do throws(ArchiveError) {
      var found: [CheckpointContents.Segment] = []
      for segment in try await objects.contents(record.contents).segments
      where try await exists(segment) {
        found.append(segment)
      }
      checkpointed.objects = found
    } catch {
      // A damaged or removed object is no reason not to make another one.
      guard error.code == .damaged || error.code == .stateUnavailable else { throw error }
    }
  }

  /// Returns whether the object of a segment is there, with its length. One that was lost is
  /// uploaded again with the next checkpoint.
  private func exists(
    _ segment: CheckpointContents.Segment
  ) async throws(ArchiveError) -> Bool {
    guard let end = Int(exactly: segment.objectByteCount), end > 0 else { return false }
    let last = try await objects.get(objects.names.data(segment.object), end - 1..<end + 1)
    return last?.count == 1
  }

  /// Uploads the contents of a state, and waits for it.
  func uploadContents(_ cut: LogCut) async throws(ArchiveError) -> ContentsReference {
    try await learnObjects()
    guard let term = machine?.state.term else { preconditionFailure("no machine runs") }
    let work = ContentsUpload(
      objects: objects, store: store, term: term, known: checkpointed.objects ?? [],
      uploaded: uploaded)
    assert(!cut.manifest.endsBeforeItsFigures, "a whole copy ends before one of its operations")
    let uploaded = try await work.run(cut, cut.manifest.encoded())
    checkpointed.objects = uploaded.segments
    return uploaded.reference
  }

  /// Creates the checkpoint of a commit whose contents are uploaded.
  func createCheckpoint(
    of header: CommitHeader, _ reference: ContentsReference
  ) async throws(ArchiveError) {
    try await createCheckpoint(
      of: ArchivedState(header),
      UploadedContents(reference: reference, segments: checkpointed.objects ?? []),
      header.milliseconds, checkpointed.bytes)
  }

  private func createCheckpoint(
    of state: ArchivedState, _ uploaded: UploadedContents, _ milliseconds: UInt64,
    _ coveredBytes: Int
  ) async throws(ArchiveError) {
    let commit = CommitReference(
      position: state.position, term: state.term, identity: state.nonce.identity)
    guard let action = machine?.checkpoint(commit) else { preconditionFailure("no machine runs") }
    pendingCheckpoint = PendingCheckpoint(
      state: state, uploaded: uploaded, milliseconds: milliseconds, coveredBytes: coveredBytes,
      action: action)
    try await finishCheckpoint()
  }

  /// Sends the request of the open checkpoint until it exists.
  func finishCheckpoint() async throws(ArchiveError) {
    guard let open = pendingCheckpoint else { return }
    var action = open.action
    while case .request(let request) = action {
      pendingCheckpoint?.action = action
      try objects.checkNumber(request)
      var bytes: [UInt8] = []
      if case .createCheckpoint(let summary) = request {
        bytes = record(summary.number, open).encoded()
      }
      action = try await answered(request, bytes)
    }
    pendingCheckpoint = nil
    switch action {
    case .checkpointed(let created): await noteCheckpoint(created, open)
    case .superseded(let other): await noteCheckpoint(other, nil)
    case .fenced: throw fencedError
    default: preconditionFailure("a checkpoint ends with \(action)")
    }
  }

  private func answered(
    _ request: ArchiveRequest, _ bytes: [UInt8]
  ) async throws(ArchiveError) -> Shipping.Action {
    var attempts = Attempts(objects.patience)
    while true {
      let answer: ArchiveAnswer
      if case .createCheckpoint(let summary) = request {
        answer = try await create(objects.names.checkpoint(summary.number), bytes, &attempts)
      } else {
        answer = try await objects.answer(request)
      }
      guard let action = machine?.receive(answer) else { preconditionFailure("no machine runs") }
      if answer != .unknown { return action }
    }
  }

  private func record(_ number: UInt64, _ open: PendingCheckpoint) -> CheckpointRecord {
    let state = open.state
    return CheckpointRecord(
      archiveID: objects.archiveID, number: number, position: state.position,
      term: machine?.state.term ?? state.term, commitNonce: state.nonce, epoch: state.epoch,
      sequence: state.sequence, digest: state.digest, liveCount: state.count,
      milliseconds: open.milliseconds, contents: open.uploaded.reference)
  }

  private func noteCheckpoint(
    _ checkpoint: CheckpointSummary, _ own: PendingCheckpoint?
  ) async {
    checkpointed.position = checkpoint.commit.position
    checkpointed.began = configuration.now()
    if let own {
      checkpointed.bytes -= own.coveredBytes
      checkpointed.storeBytes = own.uploaded.segments.reduce(0) {
        $0 + Int(clamping: $1.lengthBytes)
      }
      checkpointed.objects = own.uploaded.segments
      uploaded = UploadedSegments()
    } else {
      (checkpointed.bytes, checkpointed.storeBytes) = (0, nil)
    }
    progress.withLock { $0.checkpoint = checkpoint.number }
    configuration.onEvent?(
      .checkpointed(number: checkpoint.number, position: checkpoint.commit.position))
    await writeHint()
    beginCleaning()
  }

  /// Writes where the newest objects are. A hint only: nothing depends on it, so an error is none
  /// of the call that wrote them.
  func writeHint() async {
    let hint = HeadHint(
      archiveID: objects.archiveID, term: machine?.state.term ?? 0,
      checkpoint: machine?.state.checkpoint?.number ?? 0, position: position)
    do throws(ArchiveError) {
      try await objects.put(objects.names.head, ObjectBody(hint.encoded()))
    } catch {}
  }
}

/// The upload of all segments of a state that no object holds yet, and of their list.
struct ContentsUpload: Sendable {
  let objects: ArchiveObjects
  let store: Store
  let term: UInt64
  /// Segments that objects hold already.
  let known: [CheckpointContents.Segment]
  /// Segments that an upload of this term has uploaded, and that no checkpoint names yet.
  let uploaded: UploadedSegments

  /// - Parameter manifest: the encoding of the cut's manifest, with the last number of the state.
  func run(
    _ cut: LogCut, _ manifest: [UInt8]
  ) async throws(ArchiveError) -> UploadedContents {
    var segments: [CheckpointContents.Segment] = []
    let reusable = Dictionary(
      (known + uploaded.all).map { ($0.contents, $0) }, uniquingKeysWith: { first, _ in first })
    for segment in cut.segments {
      if let same = reusable[segment.contents] {
        segments.append(same)
      } else {
        let new = try await upload(segment)
        uploaded.add(new)
        segments.append(new)
      }
    }
    let contents = CheckpointContents(
      archiveID: objects.archiveID, segments: segments, manifest: manifest)
    let name = DataObjectName(term: term, nonce: .random)
    let bytes = contents.container()
    try await objects.put(objects.names.data(name), ObjectBody(bytes))
    try await check(objects.names.data(name), bytes.count, Array(bytes.prefix(64)))
    return UploadedContents(
      reference: ContentsReference(name: name, object: bytes), segments: segments)
  }

  private func upload(
    _ segment: SegmentBytes
  ) async throws(ArchiveError) -> CheckpointContents.Segment {
    let body: ObjectBody
    do throws(StoreError) {
      body = try await store.runBlocking { () throws(StoreError) in
        try segment.verify(from: 0, to: segment.lengthBytes)
        return try ContainerWriter().body(
          of: ContainerSource(byteCount: segment.lengthBytes) { range, visit throws(StoreError) in
            try segment.withBytes(range) { (bytes) throws(StoreError) in visit(bytes) }
          })
      }
    } catch {
      throw ArchiveError(error)
    }
    let name = DataObjectName(term: term, nonce: .random)
    do throws(ArchiveError) {
      try await objects.put(objects.names.data(name), body)
    } catch {
      // A store of objects does not say why it could not read the body.
      do throws(StoreError) { try segment.check() } catch { throw ArchiveError(error) }
      throw error
    }
    var head: [UInt8] = []
    do throws(StoreError) {
      try body.forEachPiece { piece in
        head = Array(piece.prefix(64))
        return false
      }
    } catch {
      throw ArchiveError(error)
    }
    try await check(objects.names.data(name), body.byteCount, head)
    return CheckpointContents.Segment(
      number: segment.identity.number, epoch: segment.identity.epoch, salt: segment.identity.salt,
      lengthBytes: segment.entry.lengthBytes, object: name, objectByteCount: UInt64(body.byteCount))
  }

  /// Reads the first and the last bytes of an object back: a checkpoint must not name an object
  /// that the store of objects does not have.
  private func check(
    _ name: ObjectName, _ count: Int, _ head: [UInt8]
  ) async throws(ArchiveError) {
    let first = try await objects.get(name, 0..<head.count)
    let last = try await objects.get(name, count - 1..<count + 1)
    guard first == head, last?.count == 1 else {
      throw ArchiveError(
        .unsupportedStore, "an object that was written is not there, or has other bytes",
        object: name)
    }
  }
}
