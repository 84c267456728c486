import MoraineFormat
import MoraineStorage

// What a copy of the log elsewhere needs from the store. No write waits for it.
extension Store {
  /// Returns the present state of the store; nil when nothing was ever written to it. The bytes of
  /// the cut need not be durable yet: see ``durableState(of:after:)``. But the manifest on the disk
  /// lists its segments: after a power failure, no other segments get their numbers.
  ///
  /// The caller must not hold the manifest's gate.
  ///
  /// - Throws: the errors of ``backup(to:onProgress:)``.
  /// - Complexity: O(segments), on the actor.
  package func logCut() async throws(StoreError) -> LogCut? {
    try await checkOpen()
    await writing.manifestGate.waitUntilFree()
    try checkUsable()
    guard engine != nil else { return nil }
    return try LogCut(&engine!, readers.live)
  }

  /// Creates the store on the disk, if it does not exist yet: usually the first write does that.
  ///
  /// - Throws: `.readOnly`, `.locked`, `.noSpace`, `.io`.
  package func createIfMissing() async throws(StoreError) {
    if opener.configuration.isReadOnly {
      throw StoreError(.readOnly, "the store was opened for reading only")
    }
    if opener.configuration.sharing == .shared {
      throw StoreError(
        .invalidArgument, "a store that several processes share cannot be archived yet")
    }
    try await passGate()
    guard engine == nil else { return }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    try await beginStore()
  }

  /// Waits until the disk holds all bytes of a cut that was taken before, and returns the cut with
  /// a last number that the disk holds too: that of an operation, or one that the manifest lists.
  ///
  /// An append that failed has used up a number that is in memory alone until the next manifest.
  /// After a kill, another operation gets that number.
  ///
  /// - Parameter known: a number that the copy of the log has already.
  /// - Throws: `.suspended`, `.closed`, `.poisoned`.
  package func durableState(
    of cut: LogCut, after known: SequenceNumber
  ) async throws(StoreError) -> LogCut {
    try checkUsable()
    // Another process may have given the numbers that only the memory had to its operations.
    guard cut.stay == pipeline.stay else { throw .ofSuspendedStore }
    // Before the wait: the job that has renamed this manifest also syncs the name before the wait
    // ends. Where that fails, the store is poisoned.
    guard let listed = pipeline.knownManifest?.lastSequence else { throw .ofSuspendedStore }
    // Not for the number of the cut: one that a failed append has used up never becomes durable.
    try await pipeline.waitUntilAllDurable()
    // The footer of a full segment becomes durable with the job that seals it, without a number.
    try await pipeline.run { () throws(StoreError) in }
    return cut.ending(at: pipeline.hasPoison ? known : max(listed, known))
  }

  /// Lets a hold have what compaction replaces from now on. A store has one hold at a time.
  ///
  /// - Returns: the hold until now.
  package func attach(_ hold: RetiredSegments) -> RetiredSegments? {
    defer { shipping = hold }
    shipping?.interrupt()
    return shipping
  }

  /// Ends what ``attach(_:)`` began, unless another hold has taken the place since.
  ///
  /// - Parameter earlier: the hold that takes the place again.
  /// - Returns: whether the hold had the place.
  @discardableResult
  package func detach(_ hold: RetiredSegments, for earlier: RetiredSegments? = nil) -> Bool {
    guard shipping === hold else { return false }
    shipping = earlier
    return true
  }

  /// Lets writes with the durability ``Durability/replicated`` wait for a copy of the log
  /// elsewhere.
  ///
  /// - Parameters:
  ///   - owner: the copier. The calls of an earlier one have no effect any more.
  ///   - wake: called when an operation begins to wait. Must not block.
  package nonisolated func beginReplication(
    _ owner: ReplicationOwner, _ wake: @escaping @Sendable () -> Void
  ) {
    pipeline.replication.attach(owner, wake)
  }

  /// Records that a round of the copying begins. An operation that ``waitUntilReplicated(_:)``
  /// waits for after the call does not get the error of this round, but that of the next one.
  package nonisolated func replicationBegins(_ owner: ReplicationOwner) {
    pipeline.replication.beginRound(owner)
  }

  /// Records that the copy has all operations up to a number.
  package nonisolated func replicated(
    _ owner: ReplicationOwner, through sequence: SequenceNumber
  ) {
    pipeline.replication.acknowledge(owner, through: sequence.rawValue)
  }

  /// Records that the copy has all operations of a cut. A wait for a number that a failed append
  /// has used up ends too.
  package nonisolated func replicated(_ owner: ReplicationOwner, through cut: LogCut) {
    pipeline.replication.acknowledge(
      owner, through: cut.sequence.rawValue, used: cut.usedSequence.rawValue, stay: cut.stay)
  }

  /// Gives an error to the operations that wait for the copy.
  ///
  /// - Parameter isLast: whether the copying has ended.
  package nonisolated func replicationFailed(
    _ owner: ReplicationOwner, _ error: StoreError, isLast: Bool
  ) {
    if isLast {
      pipeline.replication.detach(owner, error)
    } else {
      pipeline.replication.fail(owner, error)
    }
  }

  /// Returns the archive that this directory has written; nil when there is none.
  ///
  /// - Throws: `.suspended`, `.closed`.
  package func attachment() throws(StoreError) -> Manifest.Attachment? {
    try checkUsable()
    return engine?.log.manifest.attachment
  }

  /// Records durably that this directory writes an archive under a term. Must end before the first
  /// commit of the term: see ``Manifest/Attachment``.
  package func recordAttachment(_ attachment: Manifest.Attachment) async throws(StoreError) {
    try await checkOpen()
    guard engine != nil else { throw .corrupted("the store has no manifest", "MANIFEST", at: 0) }
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    try checkUsable()
    engine!.log.manifest.attachment = attachment
    try await publishManifest()
  }

  /// Ends all writing because another machine has taken over the history of this store. Reads go
  /// on; each write throws `.fenced`.
  package nonisolated func fence(_ message: String) {
    pipeline.poison(StoreError(.fenced, message))
  }

  /// Gives the bytes of segments that are about to be replaced to the copy of the log that still
  /// needs them.
  ///
  /// - Throws: `.corrupted`, `.io` when a file cannot be opened.
  func handOver(_ slots: [Int]) throws(StoreError) {
    guard let shipping, engine != nil else { return }
    for slot in slots {
      let (view, info) = (engine!.log.table[slot], engine!.log.table.infos[slot])
      let entry = info.entry(view)
      guard shipping.wants(entry) else { continue }
      var file: (any StorageFile)?
      if info.mapping == nil {
        // The open file stays readable without its name. Few segments are replaced before they are
        // copied: those that were sealed since the last round.
        let directory = engine!.directoryHandle()
        file = try storing { () throws(StorageError) in
          try directory.openFile(entry.number.fileName, .read)
        }
        if file == nil {
          throw .corrupted("a segment file is missing", entry.number.fileName, at: 0)
        }
      }
      shipping.add(
        SegmentBytes(entry, info, view, engine!.directoryHandle(), file: file, pin: nil))
    }
  }
}
