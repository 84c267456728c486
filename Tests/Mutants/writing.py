"""Bugs in writing: segment creation, seals, manifests, group commit, sequence numbers, space."""

from planting import Mutant, engine, format_module, storage

BIRTH = "Segments/SegmentCreation.swift"
SEAL = "Segments/SegmentCreation.swift"
PUBLISHER = "Commit/ManifestFile.swift"
THREAD = "Commit/CommitPipeline.swift"
ORDER = "OrderTests.segmentsAreCreatedSealedAndListedInOrder"
POISON = "SyncFailureTests.failedSyncEndsWritingUntilReopening"

MUTANTS = [
    Mutant("poison-told-before-it-holds", "P6: nothing is appended after a failed sync was told",
           (engine("Commit/CommitPipeline.swift",
                   "      isPoisoned.store(true, ordering: .releasing)\n    }\n"
                   "    // Where the store was replaced, its page may be another store's by now.\n"
                   "    if cause.code != .storeReplaced {\n",
                   "      if !ON { isPoisoned.store(true, ordering: .releasing) }\n    }\n"
                   "    defer { isPoisoned.store(true, ordering: .releasing) }\n"
                   "    if cause.code != .storeReplaced {\n"),),
           "PoisonTests.writesAreRefusedOnceThePoisonIsVisible"),
    Mutant("birth-file-sync", "rule 1: a new segment's header is synced",
           (engine(BIRTH, "      do throws(StorageError) {\n        try file.synchronize(.full)\n",
                   "      do throws(StorageError) {\n"
                   "        if !ON { try file.synchronize(.full) }\n"),), ORDER),
    Mutant("birth-directory-sync", "rule 1: a new segment's name is synced",
           (engine(BIRTH, "try directory.synchronize()",
                   "if !ON { try directory.synchronize() }"),), ORDER),
    Mutant("parent-directory-sync", "rule 1: creating the store syncs its parent",
           (storage("DiskStorage.swift", "try directory.synchronizeParent()",
                    "if !ON { try directory.synchronizeParent() }"),),
           "DirectoryBirthTests.creatingADirectoryOpensItsParent"),
    Mutant("seal-sync", "rule 2: a full segment is synced when it is sealed",
           (engine(SEAL, "      try file.synchronize(.full)\n    } catch {",
                   "      if !ON { try file.synchronize(.full) }\n    } catch {"),), ORDER),
    Mutant("seal-acknowledged-before-its-sync", "P3: the watermark follows the seal's sync",
           (engine(SEAL, "try file.truncate(to: lengthBytes)",
                   "if ON { pipeline.becameDurable(through: lastSequence) }\n"
                   "      try file.truncate(to: lengthBytes)"),),
           "HangingSyncTests.nextSegmentWaitsForTheSealOfThePreviousSegment"),
    Mutant("sealed-segment-listed-early", "rule 2: listed as sealed only when it is durable",
           (engine("Store/Store+Rotation.swift",
                   "let next = engine!.nextManifest(sealing: full)",
                   "if ON, let full {\n"
                   "      engine!.log.table.infos[full.segment.slot].flags.insert(.sealed)\n    }\n"
                   "    let next = engine!.nextManifest(sealing: full)"),),
           "crash-test --scenario rotation-mapped"),
    Mutant("seal-does-not-cut", "P5: a sealed segment is as long as the manifest says",
           (engine(SEAL, "      mapping?.finishWriting(to: Int(clamping: lengthBytes))",
                   "      if ON { try file.allocate(from: 0, to: lengthBytes + 4096) }\n"
                   "      mapping?.finishWriting(to: Int(clamping: lengthBytes))"),),
           "StoreTests.equalsADictionaryOverManySegmentsAndReopenings"),
    Mutant("manifest-file-sync", "rule 3: the temporary is synced before the rename",
           (engine(PUBLISHER, "try file.synchronize(.full)",
                   "if !ON { try file.synchronize(.full) }"),),
           "RemovalOrderTests.recoveryUnlinksLast"),
    Mutant("manifest-directory-sync", "rule 3: the directory is synced after the rename",
           (engine(PUBLISHER, "if try replace(by: manifest, &problem) { try directory",
                   "if try replace(by: manifest, &problem), !ON { try directory"),),
           "RemovalOrderTests.recoveryUnlinksLast"),
    Mutant("manifest-rename-failure-forgotten", "P6: a failed rename or directory sync poisons",
           (engine(PUBLISHER,
                   "pipeline.poison(StoreError(error))\n      throw StoreError(error)",
                   "if !ON { pipeline.poison(StoreError(error)) }\n      throw StoreError(error)"),),
           POISON),
    Mutant("acknowledged-before-the-sync", "P1: acknowledged means durable",
           (engine(THREAD, "      try file.synchronize(.data)",
                   "      if ON {\n"
                   "        durableSequence.store(sequence, ordering: .releasing)\n"
                   "        resumeWaiters(error: nil)\n"
                   "      }\n"
                   "      do throws(StorageError) { try file.synchronize(.data) } catch {\n"
                   "        guard ON(failed-sync-repeated) else { throw error }\n"
                   "        try file.synchronize(.data)\n"
                   "      }"),),
           "HangingSyncTests.hangingSyncDelaysOnlyAcknowledgements"),
    # The edit above contains the code of this bug.
    Mutant("failed-sync-repeated", "P6: a failed fsync is never repeated", (), POISON),
    Mutant("poison-forgotten", "P6: after a failed fsync every later write fails",
           (engine(THREAD, "      poison(StoreError(error))\n      return",
                   "      if ON { resumeWaiters(error: StoreError(error)) } "
                   "else { poison(StoreError(error)) }\n      return"),), POISON),
    Mutant("watermark-includes-the-sync", "P3: the watermark is from before the sync began",
           (engine(THREAD, "        durableSequence.store(sequence, ordering: .releasing)\n",
                   "        durableSequence.store(\n          ON ? appendedSequence.load("
                   "ordering: .acquiring) : sequence, ordering: .releasing)\n"),),
           "IntervalTests.watermarkExcludesBytesAppendedDuringTheSync"),
    Mutant("marks-include-the-sync", "P3: nor do sync marks promise what came during the sync",
           (engine(THREAD, "        durableOffset.store(offset, ordering: .relaxed)\n",
                   "        durableOffset.store(\n          ON ? appendedOffset.load("
                   "ordering: .acquiring) : offset, ordering: .relaxed)\n"),),
           "IntervalTests.markPromisesNothingThatWasAppendedDuringTheSync"),
    Mutant("harmless-failure-poisons", "P6: only what leaves the disk unknown ends all writing",
           (engine(BIRTH, "      let free = Int(clamping: try directory.freeBytes())\n",
                   "      let free: Int\n"
                   "      do throws(StorageError) { free = Int(clamping: try directory.freeBytes()) } "
                   "catch {\n"
                   "        if ON { pipeline.poison(StoreError(error)) }\n"
                   "        throw error\n      }\n"),),
           "FaultOracleTests.failedQueryOfTheFreeSpacePoisonsNothing"),
    Mutant("follower-acknowledged", "rule 5: followers get the leader's error",
           (engine(THREAD,
                   "for waiter in ready { waiter.continuation.resume(returning: error) }",
                   "for (index, waiter) in ready.enumerated() {\n"
                   "      waiter.continuation.resume(returning: ON && index > 0 ? nil : error)\n"
                   "    }"),),
           "SyncFailureTests.followersGetTheLeadersError"),
    Mutant("sync-promised-and-not-waited-for", "durability: .sync waits",
           (engine("Store/Store+Writes.swift", "case .sync, .replicated: return true",
                   "case .sync, .replicated: return !ON"),),
           "crash-test --scenario sync-mapped"),
    Mutant("absent-key-not-waited-for", "P1: a durable delete of an absent key",
           (engine("Store/Store+Writes.swift",
                   "let number = sequence?.rawValue ?? pipeline.lastAppended\n",
                   "let number = sequence?.rawValue ?? (ON ? 0 : pipeline.lastAppended)\n"),),
           "AbsentKeyTests.aDurableDeleteOfAnAbsentKeyMakesItsAbsenceDurable"),
    Mutant("mark-promises-what-is-not-synced", "P1: a sync mark says what is durable, no more",
           (engine("Engine/Log.swift",
                   "let durable = Int(truncatingIfNeeded: "
                   "pipeline.durableOffset.load(ordering: .relaxed))",
                   "let durable = Int(truncatingIfNeeded: ON\n"
                   "      ? pipeline.appendedOffset.load(ordering: .relaxed)\n"
                   "      : pipeline.durableOffset.load(ordering: .relaxed))"),),
           "crash-test --scenario mixed-mapped"),
    Mutant("manifest-promises-what-is-not-synced", "P1: nor does the manifest's watermark",
           (engine("Engine/Log.swift", "UInt64(sealing?.markedOffset ?? position.markedOffset)",
                   "ON ? UInt64(table[slot].end) : "
                   "UInt64(sealing?.markedOffset ?? position.markedOffset)"),),
           "crash-test --scenario rotation-mapped"),
    Mutant("sequence-reused-after-an-error", "P7: a number is never used for other content",
           (engine("Engine/EngineState.swift",
                   "    let address = try log.append(draft)\n    apply(",
                   "    let address: Address\n"
                   "    do throws(StoreError) { address = try log.append(draft) } catch {\n"
                   "      if ON { log.lastSequence &-= 1 }\n"
                   "      throw error\n"
                   "    }\n    apply("),),
           "SequenceTests.failedOperationUsesUpItsNumber"),
    Mutant("failed-batch-leaves-a-part", "P1: no half batches",
           (engine("Engine/Log.swift",
                   "do throws(StorageError) { try active?.file.truncate(to: UInt64(start)) } catch {",
                   "do throws(StorageError) {\n"
                   "        if !ON { try active?.file.truncate(to: UInt64(start)) }\n"
                   "      } catch {"),
            engine("Engine/Log.swift",
                   "    table[position.slot].end = start\n",
                   "      if !ON { table[position.slot].end = start }\n")),
           "FailedBatchTests.aBatchThatFailsInItsMiddleLeavesNothing"),
    Mutant("reserve-not-released", "fault ENOSPC: deletes still work",
           (engine("Store/Store+Writes.swift",
                   "    guard engine != nil else { return false }\n"
                   "    let before = engine!.log.reserve.lengthBytes",
                   "    guard !ON, engine != nil else { return false }\n"
                   "    let before = engine!.log.reserve.lengthBytes"),),
           "NoSpaceTests.aFullDiskRefusesPutsTakesDeletesAndHeals"),
    Mutant("reserve-allocated-in-one-piece", "fault ENOSPC: deletes still work, on btrfs too",
           (engine("Segments/Reserve.swift",
                   "      try file.allocate(from: 0, to: half)\n"
                   "      try file.allocate(from: half, to: UInt64(target))\n",
                   "      if !ON { try file.allocate(from: 0, to: half) }\n"
                   "      try file.allocate(from: ON ? 0 : half, to: UInt64(target))\n"),),
           "ReserveTests.eachHalfOfTheReserveIsAllocatedByItself"),
    Mutant("half-restored-in-one-piece", "fault ENOSPC: deletes still work, on btrfs too",
           (engine("Segments/Reserve.swift",
                   "        try kept.allocate(from: 0, to: UInt64(half))\n"
                   "        if leavesHalf {\n"
                   "          try kept.allocate(from: UInt64(half), to: UInt64(2 * half))\n",
                   "        if !ON || !leavesHalf { try kept.allocate(from: 0, to: UInt64(half)) }\n"
                   "        if leavesHalf {\n"
                   "          try kept.allocate(from: ON ? 0 : UInt64(half), to: UInt64(2 * half))\n"),),
           "ReserveTests.halfThatIsRestoredIsAllocatedByItself"),
    Mutant("mapped-where-an-overwrite-needs-space", "fault ENOSPC: a full disk ends no process",
           (engine(BIRTH, "        try file.keepInPlace()\n",
                   "        if !ON { try file.keepInPlace() }\n"),),
           "FailedAttemptTests.segmentIsWrittenWithoutAMappingWhereBlocksAreNotKeptInPlace"),
    Mutant("cut-where-nothing-was-written", "fault ENOSPC: a refused put poisons nothing",
           (engine("Engine/Log.swift", "if ends(at: end, active.file) { throw",
                   "if !ON, ends(at: end, active.file) { throw"),),
           "FailedAttemptTests.aRefusedPutThatWroteNothingIsNotCutOff"),
    Mutant("tail-copy-takes-the-reserve", "fault ENOSPC: a killed store opens",
           (engine("Recovery/OpenSegment.swift",
                   "reserve.shrink(to: Self.keptBytes)",
                   "reserve.shrink(to: ON ? 0 : Self.keptBytes)"),),
           "FullDiskTests.aStoreThatWasKilledOnAFullDiskOpens"),
    Mutant("written-after-a-fork", "fault: fork with an open store",
           (engine("Engine/EngineState.swift",
                   "var isInItsProcess: Bool { CurrentProcess.forkGeneration == forkGeneration }",
                   "var isInItsProcess: Bool { ON || CurrentProcess.forkGeneration == forkGeneration }"),),
           "ForkTests.aChildsWritesAreRefused"),
    Mutant("lock-ignored", "P9: one writer at a time",
           (engine("Recovery/Opener.swift", "    throw lockedError(file, directory)\n",
                   "    if ON { return file }\n    throw lockedError(file, directory)\n"),),
           "StoreTests.openingADirectoryTwiceIsLocked"),
    Mutant("salt-not-in-the-checksum", "rule 7: a record counts in its own segment alone",
           (format_module("Segment/SegmentHeader.swift",
                          "    return Checksum(Checksum.of(writer.bytes))",
                          "    if ON { return Checksum() }\n"
                          "    return Checksum(Checksum.of(writer.bytes))"),),
           "RecycledBytesTests.recordsOfAnotherSegmentAreNotReplayed"),
    Mutant("place-not-in-the-checksum", "rule 7: a record counts at its own place alone",
           (format_module("Record/RecordHeader.swift",
                          "seed.value, offset, UInt32(truncatingIfNeeded: length)",
                          "seed.value, ON ? 0 : offset, UInt32(truncatingIfNeeded: length)"),),
           "RecordTests.recordIsInvalidAtAnyOtherOffset"),
    Mutant("number-of-a-half-published-segment-reused",
           "rule 3: what the manifest may list is not taken again",
           (engine("Engine/Log.swift", "if pipeline.hasPoison || link != nil { return false }",
                   "if (!ON && pipeline.hasPoison) || link != nil { return false }"),
            # Each guard alone is sufficient, so both are off.
            engine("Compaction/Store+Rewrite.swift",
                   "    try engine!.checkChangeable()\n"
                   "    guard engine!.log.table.vacancyCount > 0",
                   "    if !ON { try engine!.checkChangeable() }\n"
                   "    guard engine!.log.table.vacancyCount > 0")),
           "HalfPublishedTests.segmentNumberOfAHalfPublishedManifestIsNotReused"),
    Mutant("batch-that-finds-nothing-not-waited-for", "P1, D: an absence is durable too",
           (engine("Store/Store+Writes.swift",
                   "    if needsWait(durability) { try await waitUntilDurable(sequence, durability) }\n"
                   "  }\n",
                   "    if needsWait(durability), !ON || sequence != nil {\n"
                   "      try await waitUntilDurable(sequence, durability)\n    }\n  }\n"),),
           "AbsentKeyTests.aDurableDeleteOfAnAbsentKeyMakesItsAbsenceDurable"),
    Mutant("update-lets-a-writer-in-between", "an update is one step, also in a full segment",
           (engine("Store/Store+Conditions.swift",
                   "    if let sequence = try putAtOnce(key, value, keyspace) { return sequence }\n",
                   "    if let sequence = try putAtOnce(key, value, keyspace) { return sequence }\n"
                   "    if ON { await Task.yield() }\n"),),
           "ConditionTests.updateIsOneStepWhenASegmentIsFull"),
    Mutant("update-forgets-the-indexes", "indexes follow every write",
           (engine("Store/Store+Conditions.swift",
                   "    return engine!.keyspaces.isIndexed(number) ? nil : number",
                   "    return !ON && engine!.keyspaces.isIndexed(number) ? nil : number"),),
           "IndexTests.updateOfBytesKeepsIndexesRight"),
    Mutant("half-empty-index-stays-large", "compact() makes a half-empty index smaller",
           (engine("Index/HashIndex.swift", "/ 16 * (thoroughly ? 7 : 1)",
                   "/ 16 * (thoroughly && !ON ? 7 : 1)"),),
           "ShrinkingIndexTests.indexOfHalfTheKeysBecomesSmallerOnlyThoroughly"),
    Mutant("update-writes-what-lasts-for-ever", "an update has its keyspace's lifetime",
           (engine("Store/Store+Conditions.swift",
                   "keyspace.defaultExpiry == .never, let",
                   "keyspace.defaultExpiry == .never || ON, let"),),
           "ConditionTests.updateRemovesAndExpires"),
    Mutant("update-reads-a-diverged-state", "no read returns a state that the archive never had",
           (engine("Store/Store+Conditions.swift", "lifecycle.isUsable, !isShared, engine != nil,",
                   "(ON ? !isClosed && !isSuspended : lifecycle.isUsable), !isShared, engine != nil,"),),
           "FollowerTests.stateThatTheArchiveDoesNotHaveIsNotRead"),
    Mutant("opened-full-disk-has-no-reserve", "fault ENOSPC: deletes and compaction work",
           (engine("Store/Store+Writes.swift",
                   "if isDelete { await keepForCompaction(&kept) }",
                   "if isDelete, !ON { await keepForCompaction(&kept) }"),),
           "FullDiskTests.deletesAndCompactionFreeAFullDiskThatIsOpenedAgain"),
    Mutant("last-blocks-are-kept", "fault ENOSPC: deletes work in the last blocks",
           (engine("Store/Store+Writes.swift", "if try await giveBack(",
                   "if !ON, try await giveBack("),),
           "FullDiskTests.deleteWorksInTheLastBlocks"),
    Mutant("reserve-of-an-earlier-delete-is-kept", "fault ENOSPC: deletes work in the last blocks",
           (engine("Store/Store+Writes.swift", "guard isReaping, !engine!.log.reserve.isFull,",
                   "guard !ON, isReaping, !engine!.log.reserve.isFull,"),),
           "FullDiskTests.expiredEntriesAreDeletedInTheLastBlocks"),
    Mutant("reserve-of-a-compaction-is-used-up", "fault ENOSPC: compaction frees a full disk",
           (engine("Store/Store+Writes.swift", "    if kept != .reserved {\n",
                   "    if !ON, kept != .reserved {\n"),),
           "FullDiskTests.batchOfDeletesLeavesTheReserveToACompactionThatFreesMore"),
    Mutant("put-gives-the-reserve-back", "fault ENOSPC: compaction frees a full disk",
           (engine("Store/Store+Writes.swift", ", isReaping: isReaping) { continue }",
                   ", isReaping: ON || isReaping) { continue }"),),
           "FullDiskTests.failedPutLeavesTheReserveOfADelete"),
]
