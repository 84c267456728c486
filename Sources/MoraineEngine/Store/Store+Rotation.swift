import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// Ends the active segment and begins the next one: the spare segment, or one that is created
  /// now. The old segment is sealed in the background; in a shared store it is sealed first.
  ///
  /// Before a record is written to the new segment, the manifest lists both segments as open, so
  /// that an opening after a kill at any moment finds every record. Once the old segment is
  /// durable, the manifest lists it as sealed. Until then nothing in the new segment can become
  /// durable, and no manifest lists a third one: the committing thread runs these jobs one after
  /// the other.
  func rotate(for count: Int) async throws(StoreError) {
    if try await useSpare(for: count) { return }
    await writing.manifestGate.acquire()
    defer { writing.manifestGate.release() }
    // The task that had the gate may have created the segment.
    if try await useSpare(for: count) { return }
    // The unit does not fit into the spare segment, or the creation has failed.
    let small = engine!.log.spare
    engine!.log.spare = nil
    do throws(StoreError) { try await createNextSegment(for: count) } catch {
      engine!.log.spare = small
      throw error
    }
    // Where this fails, the next opening removes the file.
    if let small { do throws(StoreError) { try await discard(small) } catch {} }
  }

  private func createNextSegment(for count: Int) async throws(StoreError) {
    try await settleAllocation()
    let pipeline = pipeline
    if isShared {
      // Seal it now, under the lock: another process would have to wait for work that is left.
      try await sealActive()
    } else {
      try engine!.appendFooter()
    }
    let creation = engine!.nextSegmentCreation(for: count)
    let created: SegmentCreation.Created
    do throws(StoreError) {
      created = try await pipeline.run { () throws(StoreError) in try creation.run(pipeline) }
    } catch {
      engine!.log.returnNumber(creation.header.number)
      throw error
    }
    let full = engine!.log.adopt(created, creation)
    let next = engine!.nextManifest(sealing: full)
    let publisher = engine!.log.publisher()
    do throws(StoreError) {
      try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    } catch {
      let isReturned = engine!.log.abandonActive(for: full)
      engine!.recent.markStale()
      // A compaction may have taken the next number since, and a shared store never uses a number
      // again. Then no later creation removes the file, which has its space allocated.
      if !isReturned, !pipeline.hasPoison {
        try await pipeline.run { () throws(StoreError) in try creation.discard() }
      }
      throw error
    }
    engine!.log.adoptManifest(next)
    begin(created, creation, after: full?.segment, hasGate: true)
  }

  /// Begins the segment that was adopted. The committing thread seals the one before it; then a
  /// manifest lists that one as sealed.
  ///
  /// - Parameter hasGate: whether the caller holds the manifest's gate.
  private func begin(
    _ created: SegmentCreation.Created, _ creation: SegmentCreation, after full: ActiveSegment?,
    hasGate: Bool
  ) {
    let offset = UInt64(creation.header.headerLength)
    if let full {
      let seal = engine!.log.seal(full)
      let job = hasGate || !writing.manifestGate.isHeld ? sealAndList(seal) : sealThenList(seal)
      pipeline.beginSegment(file: created.file, offset: offset, sealing: job)
    } else {
      pipeline.beginSegment(
        file: created.file, sequence: engine!.log.lastSequence, offset: offset)
    }
    // An earlier run may have left garbage.
    compactIfWorthIt()
  }

  /// Returns the job that seals a segment and publishes the manifest that says so.
  private func sealAndList(_ seal: SealWork) -> @Sendable () -> Void {
    let next = engine!.nextManifest()
    let publisher = engine!.log.publisher()
    engine!.log.adoptManifest(next)
    return {
      let pipeline = publisher.pipeline
      do throws(StoreError) {
        try seal.run(pipeline)
        seal.prefault()
        try publisher.publish(next)
      } catch {
        // The next manifest says the same, and until then the footer does.
        if !pipeline.hasPoison { pipeline.events?.send(.manifestFailed(error)) }
      }
    }
  }

  /// Returns the job that seals a segment, and publishes the manifest when the task that holds the
  /// gate has published its own: that one does not say yet that the segment is sealed.
  private func sealThenList(_ seal: SealWork) -> @Sendable () -> Void {
    writing.beginSegmentTask()
    startTask { await $0.listSealedSegment() }
    // A failure has poisoned the pipeline.
    return { [pipeline] in
      do throws(StoreError) {
        try seal.run(pipeline)
        seal.prefault()
      } catch {}
    }
  }

  /// Publishes a manifest that lists the last full segment as sealed.
  private func listSealedSegment() async {
    defer { writing.endSegmentTask() }
    do throws(StoreError) {
      await writing.manifestGate.acquire()
      defer { writing.manifestGate.release() }
      guard engine != nil, !pipeline.hasPoison else { return }
      try await publishManifest()
    } catch {
      // The next manifest says the same, and until then the footer does.
      if !pipeline.hasPoison { send(.manifestFailed(error)) }
    }
  }
}

extension Store {
  /// Makes room for `count` bytes of records: in the active segment, or in the next one.
  func makeRoom(for count: Int, isDelete: Bool) async throws(StoreError) {
    let capacity = engine!.log.capacity(for: count)
    if case .enough = capacity { return }
    let slot = engine!.log.active?.slot
    let bytes: Int?
    if isDelete {
      // Deletes do not wait: they cannot add garbage without end, and they may free a full disk.
      bytes = max(count, ActiveSegment.smallestAllocation)
      engine!.log.postponePause(for: count)
    } else {
      bytes = await yieldToCompaction(before: count)
      engine!.log.setPause(after: bytes, for: count)
    }
    try await makeRoom(for: count, capacity)
    // The next segment must not begin without a pause.
    if engine!.log.active?.slot != slot { engine!.log.setPause(after: bytes, for: count) }
    engine!.log.passMiddle(count)
    prepareSpareIfDue()
    watchForIdleness()
    // A delete may have found space only because it was reserved for deletes.
    if !isDelete { writing.foundSpace() }
  }

  private func makeRoom(for count: Int, _ capacity: AppendCapacity) async throws(StoreError) {
    switch capacity {
    case .enough, .pause: return
    case .extendAhead:
      // It is not known yet whether there is space.
      engine!.log.extendAhead()
    case .extend: try await extend(for: count)
    case .rotate:
      // A longer segment costs less than waiting for the next one.
      if writing.isPreparingSpare, engine!.log.growActive(for: count) {
        return try await extend(for: count)
      }
      try await rotate(for: count)
    }
  }

  private func extend(for count: Int) async throws(StoreError) {
    if engine!.log.active?.ticket != nil {
      try await settleAllocation()
      if engine!.log.capacity(for: count) != .extend { return }
    }
    do throws(StoreError) { try await allocate(for: count) } catch {
      guard error.code == .noSpace else { throw error }
      // The spare segment has some space.
      if try await useSpare(for: count) { return }
      // Jobs of the committing thread may free more: they cut sealed segments, and remove files.
      try await pipeline.run { () throws(StoreError) in }
      try await allocate(for: count)
    }
  }

  private func allocate(for count: Int) async throws(StoreError) {
    guard let work = engine!.log.extensionWork(for: count) else { return }
    let end = try await pipeline.allocations.run { () throws(StoreError) in
      try storing { () throws(StorageError) in try work.run() }
    }
    engine!.log.extended(to: end)
  }

  /// Waits for the allocation under way. After that, no job makes the active segment longer.
  func settleAllocation() async throws(StoreError) {
    guard let ticket = engine?.log.active?.ticket else { return }
    if !ticket.isRedeemable {
      // Jobs run in order: when this empty job has run, the allocation is done, or has failed.
      try await pipeline.allocations.run { () throws(StoreError) in }
    }
    if engine != nil { engine!.log.redeemTicket() }
  }
}

/// Segments that are created before they are needed.
extension Store {
  /// Begins to create the segment after the active one, if it is time.
  func prepareSpareIfDue() {
    guard !writing.isPreparingSpare, engine?.log.isSpareDue == true, !isClosed, !isSuspended,
      !pipeline.hasPoison
    else { return }
    writing.beginPreparingSpare()
    startTask { await $0.prepareSpare() }
  }

  private func prepareSpare() async {
    defer { writing.endPreparingSpare() }
    do throws(StoreError) {
      await writing.manifestGate.acquire()
      defer { writing.manifestGate.release() }
      guard !isClosed, !isSuspended, engine?.log.isSpareDue == true else { return }
      engine!.log.active?.needsSpare = false
      let creation = engine!.nextSegmentCreation(for: 0, isAhead: true)
      let created: SegmentCreation.Created
      do throws(StoreError) {
        created = try await pipeline.run { [pipeline] () throws(StoreError) in
          try creation.run(pipeline)
        }
      } catch {
        engine?.log.returnNumber(creation.header.number)
        throw error
      }
      engine!.log.spare = SpareSegment(creation: creation, created: created)
      do throws(StoreError) { try await publishManifest() } catch {
        engine!.log.spare = nil
        if !pipeline.hasPoison {
          try await pipeline.run { () throws(StoreError) in try creation.discard() }
        }
        throw error
      }
      engine!.log.spare?.isListed = true
    } catch {
      // The rotation creates the segment, and reports the error if it persists.
    }
  }

  /// Ends the active segment and begins the spare one, without waiting for a sync. The committing
  /// thread seals the old segment.
  ///
  /// - Returns: false when there is no spare segment, or when the unit does not fit.
  private func useSpare(for count: Int) async throws(StoreError) -> Bool {
    guard let spare = engine!.log.spare, spare.isListed, spare.fits(count) else { return false }
    if let poison = pipeline.poison { throw poison }
    try await settleAllocation()
    try engine!.appendFooter()
    let full = engine!.log.adopt(spare, for: count)
    begin(spare.created, spare.creation, after: full?.segment, hasGate: false)
    return true
  }

  /// Waits until the operations up to this one are durable. Used by work in the background.
  ///
  /// Where others have written since, the active segment is ended early, unless it is short, and
  /// its seal makes them durable. A sync of a segment that others write to costs these more: on
  /// Linux each page that is written to the disk interrupts their processor, and then each page
  /// that was made present ahead is a page fault.
  ///
  /// - Parameter earlier: an operation some time ago, by which the caller knows whether others
  ///   write; nil for `sequence`.
  func makeDurable(
    through sequence: UInt64, since earlier: UInt64? = nil
  ) async throws(StoreError) {
    // In a shared store, other processes may have written what is to be durable.
    guard !isShared else { return try await pipeline.waitUntilAllDurable() }
    let isBusy = pipeline.lastAppended > earlier ?? sequence
    if isBusy, !compaction.isForFullDisk {
      // A sync does without it, and reports what has ended writing.
      do throws(StoreError) { try await endActive(through: sequence) } catch {}
    }
    try await pipeline.waitUntilDurable(sequence)
  }

  /// Begins the spare segment, if the active one contains an operation that is not durable.
  private func endActive(through sequence: UInt64) async throws(StoreError) {
    guard pipeline.durableSequence.load(ordering: .acquiring) < sequence else { return }
    guard engine?.log.mayEnd(through: sequence) == true else { return }
    if engine!.log.spare == nil { engine!.log.active?.needsSpare = true }
    prepareSpareIfDue()
    await writing.waitForSegmentTasks()
    try await passGateToCompact()
    // A writer may have begun the next segment.
    guard engine?.log.mayEnd(through: sequence) == true else { return }
    writing.roomGate.take()
    defer { writing.roomGate.release() }
    guard try await useSpare(for: 0), engine!.log.active?.allocated == nil else { return }
    // Where space is allocated ahead, a writer asks for a pause within a mebibyte, when the inputs
    // of the compaction are gone. Elsewhere the next writer asks.
    engine!.log.setPause(after: 0, for: 0)
  }

  /// Removes the file of a spare segment that the manifest does not list any more.
  func discard(_ spare: SpareSegment) async throws(StoreError) {
    assert(engine?.log.spare == nil, "a spare segment that is listed loses its file")
    try await pipeline.run { () throws(StoreError) in try spare.creation.discard() }
  }
}
