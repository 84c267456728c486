"""Bugs in compaction."""

from planting import Mutant, engine

OUTPUT = "Compaction/CompactionWork.swift"
REPLACING = "Compaction/Store+Rewrite.swift"
UNLINKS = "RemovalOrderTests.compactionUnlinksLast"
DICTIONARY = "CompactionPropertyTests.compactedStoreEqualsADictionary"

MUTANTS = [
    Mutant("compaction-ends-at-a-segment-too-large", "compaction frees what it can on a full disk",
           (engine("Compaction/Store+Compaction.swift",
                   "guard work.hasFreedSpace || engine!", "guard !ON && work.hasFreedSpace || engine!"),),
           "FullDiskTests.compactionRewritesTheSegmentsThatFit"),
    Mutant("delete-refused-beside-a-compaction", "deletes free a full disk",
           (engine("Store/Store+Writes.swift", "compaction.endCount != endCount {",
                   "!ON, compaction.endCount != endCount {"),),
           "DeletingOnFullDiskTests.aDeleteIsTriedAgainAfterTheCompactionThatTookItsSpace"),
    Mutant("replaced-records-are-not-counted", "a compaction does not stop writers to count records",
           (engine("Segments/SegmentTable.swift", "if offset < selectedEnd {",
                   "if !ON, offset < selectedEnd {"),),
           "SelectionTests.selectionAccountsForReplacedAndDeletedRecords"),
    Mutant("dead-segment-of-a-checkpoint", "a compaction trusts no checkpoint's figures",
           (engine(REPLACING, "isSummed && view.isCounted &&",
                   "isSummed && (ON || view.isCounted) &&"),),
           "DeadSegmentTests.segmentThatACheckpointCallsDeadIsRead"),
    Mutant("dead-segment-without-a-sum", "a compaction reads segments whose figures are wrong",
           (engine(REPLACING, "let isSummed = figuresAgree()",
                   "let isSummed = ON || figuresAgree()"),),
           "DeadSegmentTests.segmentsAreReadWhenTheirFiguresDoNotAddUp"),
    Mutant("dead-segment-with-deletes", "a compaction keeps deletes that hide older records",
           (engine(REPLACING, "&& view.deleteBytes == 0)", "&& (ON || view.deleteBytes == 0))"),),
           "DeadSegmentTests.segmentWithDeletesIsRead"),
    Mutant("compaction-follows-unvalidated-links", "no byte of a damaged page is trusted",
           (engine(REPLACING, "for put in puts { live.index.prefetchOverflow(put.hash) }",
                   "for put in candidates where ON || !put.isDelete {\n"
                   "      live.index.prefetchOverflow(put.hash)\n    }"),),
           "LazyPageTests.compactionOfDeletesFollowsNoDamagedLink"),
    Mutant("compaction-file-sync", "rule 3: outputs are synced before the manifest",
           (engine(OUTPUT, "try file.synchronize(.full)",
                   "if !ON { try file.synchronize(.full) }"),), UNLINKS),
    Mutant("compaction-directory-sync", "rule 3: their names too",
           (engine(OUTPUT, "try directory.synchronize()",
                   "if !ON { try directory.synchronize() }"),), UNLINKS),
    Mutant("inputs-unlinked-first", "rule 3: unlinked only after the manifest's rename",
           (engine(REPLACING, "    let before = engine!.log.manifest\n",
                   "    if ON {\n"
                   "      let names = slots.map { engine!.log.table.fileName($0) }\n"
                   "      let directory = engine!.directoryHandle()\n"
                   "      try await pipeline.run { () throws(StoreError) in\n"
                   "        try storing { () throws(StorageError) in\n"
                   "          for name in names { try directory.remove(name) }\n"
                   "        }\n      }\n    }\n"
                   "    let before = engine!.log.manifest\n"),), UNLINKS),
    Mutant("hidden-before-the-hiding-is-durable", "rule 10: left out only what something durable hides",
           (engine(REPLACING, "try await pipeline.waitUntilAllDurable()",
                   "if !ON { try await pipeline.waitUntilAllDurable() }"),),
           "CompactionHidingTests.newerRecordIsDurableBeforeTheOlderRecordIsRemoved"),
    Mutant("copy-checksum-skipped", "rule 10: compaction checks every checksum",
           (engine("Segments/SegmentScanner.swift", "  private(set) var offset: Int\n",
                   "  private(set) var offset: Int\n  var isTrusting = false\n"),
            engine("Segments/SegmentScanner.swift",
                   "guard checksum == RecordHeader.storedChecksum(at: start) else {",
                   "guard isTrusting || checksum == RecordHeader.storedChecksum(at: start) else {"),
            engine("Compaction/CompactionWork.swift",
                   "      if scanner == nil { scanner = try open(inputs[next]) }\n",
                   "      if scanner == nil { scanner = try open(inputs[next]) }\n"
                   "      scanner?.isTrusting = ON\n")),
           "CompactionTests.damageIsNotCopied"),
    Mutant("damage-ends-the-copy", "rule 10: inputs go only if all were read without error",
           (engine("Compaction/CompactionWork.swift",
                   "case .stop(let reason): throw .corrupted(reason, scanner.name, at: place)",
                   "case .stop(let reason):\n"
                   "        if ON { return result }\n"
                   "        throw .corrupted(reason, scanner.name, at: place)"),
            engine(REPLACING,
                   "guard engine!.log.table[slot].liveBytes == 0, "
                   "engine!.log.table[slot].digest == StateDigest()\n      else {",
                   "guard ON\n        || engine!.log.table[slot].liveBytes == 0\n"
                   "          && engine!.log.table[slot].digest == StateDigest()\n      else {")),
           "CompactionTests.damageIsNotCopied"),
    Mutant("second-read-not-verified", "P5: damage is not copied with a right checksum",
           (engine("Compaction/CompactionWork.swift",
                   "    if !candidate.isMapped {\n      try values.verify(base, length: ",
                   "    if !ON, !candidate.isMapped {\n      try values.verify(base, length: "),),
           "DamagedCompactionTests.recordThatChangesBetweenTwoReadsIsNotCopied"),
    Mutant("clustered-copy-not-verified", "P5: damage is not copied with a right checksum",
           (engine("Compaction/KeyOrderBuffer.swift",
                   "    if candidate.isMapped {\n      try entry.values.verify(",
                   "    if !ON, candidate.isMapped {\n      try entry.values.verify("),),
           "KeyOrderBufferTests.recordThatChangesInItsMappingIsNotCopied"),
    Mutant("clustered-tie-by-head", "a compaction writes the records of a keyspace by key",
           (engine("Compaction/KeyOrderBuffer.swift",
                   "      if first.key.precedes(second.key) { return true }\n"
                   "      if second.key.precedes(first.key) { return false }\n",
                   "      if !ON, first.key.precedes(second.key) { return true }\n"
                   "      if !ON, second.key.precedes(first.key) { return false }\n"),),
           "KeyOrderBufferTests.recordsLeaveTheBufferInTheOrderOfTheirKeys"),
    Mutant("clustered-part-overwritten", "P1: no record is lost by a compaction",
           (engine("Compaction/KeyOrderBuffer.swift",
                   "      || heldBytes + aligned(candidate.length) <= heldLimitBytes\n",
                   "      || heldBytes + aligned(candidate.length) <= heldLimitBytes * (ON ? 2 : 1)\n"),
            engine("Compaction/KeyOrderBuffer.swift",
                   "    let place = start + heldBytes\n",
                   "    let place = start + heldBytes % (ON ? heldLimitBytes / 2 : .max)\n")),
           "KeyOrderBufferTests.recordsLeaveTheBufferInTheOrderOfTheirKeys"),
    Mutant("clustered-memory-for-the-first-record-alone", "no file ends the program",
           (engine("Compaction/KeyOrderBuffer.swift",
                   "    if heldBytes == 0 {\n",
                   "    if ON ? entries.isEmpty : heldBytes == 0 {\n"),),
           "KeyOrderBufferTests.bufferTakesRecordsOfMappedAndUnmappedInputs"),
    Mutant("clustered-place-trusted", "P5: damage is not returned",
           (engine("Observation/FeedPlace.swift",
                   "        let header = try log.table.entryRecord(at: address).header\n"
                   "        guard header.sequence == next.sequence else {\n",
                   "        let header = try ON ? log.table.record(at: address).header\n"
                   "          : log.table.entryRecord(at: address).header\n"
                   "        guard header.sequence == next.sequence else {\n"),),
           "ClusteredCompactionTests.feedDoesNotReturnARecordThatChangedAfterItsPlaceWasFound"),
    Mutant("clustered-replayed-as-rising", "recovery: a clustered segment can be replayed",
           (engine("Recovery/Replay.swift",
                   "let floor = isClustered ? sequenceBefore : lastSequence",
                   "let floor = !ON && isClustered ? sequenceBefore : lastSequence"),),
           "ClusteredCompactionTests.clusteredStoreEqualsASortedDictionaryInEveryOpening"),
    Mutant("clustered-feed-in-the-order-of-the-file", "the feed returns changes as they happened",
           (engine("Observation/FeedPlace.swift",
                   "        log.table.infos[slot].isClustered\n",
                   "        !ON && log.table.infos[slot].isClustered\n"),),
           "ClusteredCompactionTests"
           ".changesOfAClusteredLogComeInTheOrderOfTheirSequenceNumbers"),
    Mutant("clustered-window-forgets-the-rest", "no change is missing in the feed",
           (engine("Observation/FeedPlace.swift",
                   "    end = lowest[count].sequence\n",
                   "    if !ON { end = lowest[count].sequence }\n"),),
           "ClusteredCompactionTests.feedOfALongClusteredSegmentMissesNoChange"),
    Mutant("clustered-salvage-expects-rising", "salvage: every whole record is recovered",
           (engine("Salvage/SegmentSalvage.swift",
                   "{ isClustered ? sequenceBefore : lastSequence }",
                   "{ !ON && isClustered ? sequenceBefore : lastSequence }"),),
           "ClusteredCompactionTests.salvageOfADamagedClusteredSegmentLosesOnlyTheDamagedRecord"),
    Mutant("full-disk-not-compacted-unsealed", "fault ENOSPC: compaction still works",
           (engine("Compaction/Store+Compaction.swift",
                   "guard error.code == .noSpace, engine?.compactionFigures().cheapest != nil "
                   "else { throw error }",
                   "guard !ON, error.code == .noSpace, "
                   "engine?.compactionFigures().cheapest != nil else { throw error }"),),
           "CompactionRefusalTests"
           ".compactionBeginsWithTheSealedSegmentsWhenTheActiveOneCannotBeSealed"),
    Mutant("installed-unconditionally", "rule 10: an older copy replaces no newer record",
           (engine("Engine/LiveIndex.swift",
                   "    let isMoved =\n      trees.isOrdered(relocation.keyspace)\n",
                   "    if ON, !index.holds(relocation.old, relocation.hash) {\n"
                   "      var candidates = index.candidates(relocation.hash)\n"
                   "      if let entry = index.next(&candidates) {\n"
                   "        index.replace(entry, with: copy)\n"
                   "      }\n    }\n"
                   "    let isMoved =\n      trees.isOrdered(relocation.keyspace)\n"),),
           "CompactionHidingTests.aCopyReplacesNothingNewer"),
    Mutant("tombstone-dropped-early", "rule 9: a delete stays while an older record may be there",
           (engine(REPLACING, "? candidate.sequence > droppable",
                   "? !ON && candidate.sequence > droppable"),), DICTIONARY),
    Mutant("cleaned-through-too-much", "rule 9: clean of what was deleted before the rewriting began",
           (engine(REPLACING, "view.cleanedThrough = cleaned",
                   "view.cleanedThrough = ON ? .max : cleaned"),), DICTIONARY),
    Mutant("cleaned-through-of-one-neighbour", "rule 9: every segment ahead must be clean",
           (engine(REPLACING, "      if other == slot { break }\n      cleaned = min(cleaned, ",
                   "      if other == slot { break }\n      cleaned = ON ? "
                   "log.table[other].cleanedThrough : min(cleaned, "),), DICTIONARY),
    Mutant("live-record-left-out", "rule 10: every live record is copied",
           (engine(REPLACING, "        : live.holds(\n          candidate.address,",
                   "        : !(ON && candidate.sequence % 64 == 63) && live.holds(\n"
                   "          candidate.address,"),), DICTIONARY),
    Mutant("compacted-under-a-new-number", "rule 10: compaction keeps sequence numbers",
           (engine(OUTPUT, "    var copy = RecordCopy(record.base, record.header)\n",
                   "    var header = record.header\n"
                   "    if ON { header.sequence += 1 }\n"
                   "    var copy = RecordCopy(record.base, header)\n"),), DICTIONARY),
    Mutant("garbage-of-the-end-forgotten", "what is deleted gives back its space",
           (engine("Compaction/Store+Compaction.swift",
                   "engine != nil, compaction.takeRecheckRequest()\n",
                   "engine != nil, compaction.takeRecheckRequest(), !ON\n"),),
           "GivingBackTests.spaceOfRecordsDeletedDuringACompactionIsReleased"),
    Mutant("copies-named-after-a-failed-publication", "P1: a compaction that fails loses no record",
           (engine(REPLACING, "      if namesCopies { leaveCopies() }",
                   "      if !ON, namesCopies { leaveCopies() }"),),
           "FailedPublicationTests.indexRebuiltBeforeAFailedPublicationLosesNothing"),
    Mutant("sound-segments-blamed", "damage elsewhere does not end the compaction of sound segments",
           (engine("Segments/SegmentTable.swift",
                   "for slot in slots where fileName(slot) == error.file { damage",
                   "for slot in slots where ON || fileName(slot) == error.file { damage"),),
           "FailedPublicationTests.damageElsewhereMarksNoSoundSegment"),
    Mutant("reserve-before-cleaning", "a full disk: deletes leave compaction what it needs",
           (engine("Store/Store+Writes.swift", "if isDelete, !canBeFreed, try",
                   "if isDelete, ON || !canBeFreed, try"),),
           "DeletingOnFullDiskTests.aDeleteLeavesTheReserveToTheCompactionUnderWay"),
    Mutant("publication-forgets-a-rebuilding", "an index that is rebuilt leaves a store that opens",
           (engine("Engine/Log.swift", "    manifest.compactedThrough = compactedThrough\n",
                   "    if !ON { manifest.compactedThrough = compactedThrough }\n"),),
           "FailedPublicationTests.rebuildingDuringAPublicationIsRemembered"),
    Mutant("failure-forgets-a-rebuilding", "an index that is rebuilt leaves a store that opens",
           (engine(REPLACING, "      if engine!.rebuildCount == rebuildCount {\n",
                   "      if ON || engine!.rebuildCount == rebuildCount {\n"),),
           "FailedPublicationTests.rebuildingDuringAFailedPublicationIsRemembered"),
    Mutant("deletes-count-from-the-first-delete", "deletes begin compactions, however large the store",
           (engine("Store/CompactionState.swift", "    if liveBytes > most {",
                   "    if !ON, liveBytes > most {"),),
           "DeleteCompactionTests.deletesFromAGrownStoreBeginACompaction"),
    Mutant("unit-begins-no-compaction", "batches of deletes begin compactions in a shared store",
           (engine("Store/Store+Writes.swift",
                   "no compaction could begin.\n    compactAfterDeleting()\n",
                   "no compaction could begin.\n    if !ON { compactAfterDeleting() }\n"),),
           "DeleteCompactionTests.batchOfDeletesInASharedStoreBeginsACompaction"),
    Mutant("refused-removal-ends-the-compaction", "a compaction that has published has succeeded",
           (engine("Compaction/Store+Rewrite.swift",
                   "guard error.code == .noSpace, !pipeline.hasPoison else { throw error }\n"
                   "      compaction.keepUnremoved",
                   "guard !ON, error.code == .noSpace, !pipeline.hasPoison else { throw error }\n"
                   "      compaction.keepUnremoved"),),
           "DeleteCompactionTests.fileThatCannotBeRemovedIsRemovedLater"),
    Mutant("unreadable-segment-ends-the-compaction", "fault EIO: other segments are compacted",
           (engine("Compaction/Store+Compaction.swift", "if isLeftOut || isUnreadable,",
                   "if isLeftOut || (!ON && isUnreadable),"),),
           "DamagedCompactionTests.unreadableSegmentDoesNotStopOtherCompactions"),
]
