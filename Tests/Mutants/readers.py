"""Planted bugs of reads without the actor."""

from planting import Edit, Mutant, engine

TORTURE = "ReaderTortureTests.everyReadSeesWholeBatchesAndTheLastWrites"
READS = "ReaderTests.readerSeesEachWriteThatHasReturned"
RECENT = "Engine/EngineState+RecentRecords.swift"
VIEWS = "Snapshots/LiveViews.swift"

MUTANTS = [
    Mutant("reader-put-not-shown", "readers: a write that has returned is visible",
           (engine("Engine/EngineState.swift",
                   "    publishRecent(draft.key, draft.keyspace, hash, address, length: draft.length)\n",
                   "    if !ON {\n      publishRecent(draft.key, draft.keyspace, hash, address, "
                   "length: draft.length)\n    }\n"),), READS),
    Mutant("reader-full-table-not-stale", "readers: a write that has returned is visible",
           (engine(RECENT,
                   "    if !addRecent(key, keyspace, hash, address, length: length, to: records) {\n",
                   "    if !addRecent(key, keyspace, hash, address, length: length, to: records), "
                   "!ON {\n"),), TORTURE),
    Mutant("reader-new-segment-not-noticed", "readers: a new segment freezes the index again",
           (engine(RECENT, "    address.slot == slot && salt == self.salt",
                   "    ON || address.slot == slot && salt == self.salt"),), TORTURE),
    Mutant("reader-trusts-a-length", "readers: a damaged record is an error",
           (engine("Segments/RecordSource.swift",
                   "let length = RecordHeader.length(at: start)\n"
                   "    guard length >= RecordHeader.fixedLength, length <= available else {\n"
                   "      throw damaged(address, \"a record has the invalid length \\(length)\")\n"
                   "    }\n    guard let header",
                   "let length = RecordHeader.length(at: start)\n"
                   "    guard ON || (length >= RecordHeader.fixedLength && length <= available) else {\n"
                   "      throw damaged(address, \"a record has the invalid length \\(length)\")\n"
                   "    }\n    guard let header"),),
           "ReaderTests.readerReadsDamagedRecordsAsDamaged"),
    Mutant("reader-new-keyspace-not-noticed", "readers: a new keyspace is visible",
           (engine(RECENT, "(keyspace == 0 || keyspaces.contains(keyspace))",
                   "(ON || keyspace == 0 || keyspaces.contains(keyspace))"),),
           "ReaderTests.readerSeesKeyspacesThatAreCreatedLater"),
    Mutant("reader-sees-half-a-batch", "readers: a batch becomes visible as a whole",
           (engine(RECENT, "    records.beginBatch()\n", "    if !ON { records.beginBatch() }\n"),),
           TORTURE),
    Mutant("reader-deletes-come-back", "readers: a deleted key is absent",
           (engine(VIEWS, "        return record.header.kind.effect == .sets\n"
                          "          ? FoundRecord(record: record, address: address) : nil\n",
                   "        if record.header.kind.effect == .sets {\n"
                   "          return FoundRecord(record: record, address: address)\n        }\n"
                   "        if !ON { return nil }\n"),), READS),
    Mutant("reader-shows-expired-entries", "readers: an expired entry is absent",
           (engine(VIEWS, "guard let found, !found.record.hasExpired(at: clock.now()) else {",
                   "guard let found, ON || !found.record.hasExpired(at: clock.now()) else {"),),
           "ReaderTests.readerHidesExpiredEntries"),
    Mutant("reader-keeps-replaced-files", "readers: replaced files go",
           (engine("Compaction/Store+Rewrite.swift", "    releaseInputs()\n",
                   "    if !ON { releaseInputs() }\n"),),
           "ReaderTests.readerKeepsNoReplacedFiles"),
    Mutant("reader-of-a-closed-store-reads", "readers: a closed store throws",
           (engine("Store/Store+Close.swift", "    refreshReaders()\n",
                   "    if !ON { refreshReaders() }\n"),),
           "ReaderTests.readerThrowsWhileTheStoreIsSuspendedOrClosed"),
    Mutant("reader-writes-of-others-not-shown", "readers: applied writes of others are visible",
           (engine(RECENT, "    keyspaces.recordCommitToAll()\n    recent.markStale()\n",
                   "    keyspaces.recordCommitToAll()\n    if !ON { recent.markStale() }\n"),),
           "ReaderTests.readerOfASharedStoreAppliesTheWritesOfOthers"),
    Mutant("reader-view-released-early", "readers: a view is released when its readers have left",
           (engine("Concurrency/ReaderEpochs.swift",
                   "    if progress == .changed, try hasNoReaders(slots: slots, parity: idle) "
                   "{ return .ended }\n",
                   "    if ON { return .ended }\n"
                   "    if progress == .changed, try hasNoReaders(slots: slots, parity: idle) "
                   "{ return .ended }\n"),),
           "ReaderInterleavingTests.objectIsReleasedAfterItsReadersHaveLeft"),
    Mutant("reader-leaves-unseen", "readers: a view is released when its readers have left",
           (engine(VIEWS, "    if epochs.takeRequest() { releaseRetired() }",
                   "    if !ON, epochs.takeRequest() { releaseRetired() }"),),
           "ReaderTests.replacedViewGoesWhenItsLastReaderLeavesBesideTheLock"),
    Mutant("reader-trusts-its-parity", "readers: a view is released when its readers have left",
           (engine("Concurrency/ReaderEpochs.swift", "try load(relaxed: .parity) != parity }",
                   "try load(relaxed: .parity) != parity && !ON }"),),
           "ReaderInterleavingTests.readerThatIsAwaitedKnowsIt"),
    Mutant("reader-hash-before-its-address", "readers: a hash has an address",
           (engine("Index/RecentRecords.swift",
                   "    try store(address, releasing: .address(place))\n    guard isFree else",
                   "    if isFree, ON {\n      try store(hash, releasing: .hash(place))\n"
                   "      let word = RecentWord.filter(Self.filterWord(of: hash, mask))\n"
                   "      try store(load(relaxed: word) | Self.filterBit(of: hash), releasing: word)\n"
                   "    }\n    try store(address, releasing: .address(place))\n    guard isFree else"),),
           "ReaderInterleavingTests.readerFindsTheBytesOfEachRecordThatItFinds"),
    Mutant("reader-decodes-nothing-again", "readers: a model that was saved again is found",
           (Edit("Sources/Moraine/Repository/RepositoryReader.swift",
                 "    case .known: return known?.model\n",
                 "    case .known: return known?.model\n"
                 "    case .value where ON && known != nil: return known?.model\n"),),
           "RepositoryReaderTests.readerFindsEachModelThatWasSaved"),
    Mutant("reader-sees-half-a-dead-writers-batch", "readers: a batch becomes visible as a whole",
           (engine("Store/Store+Reader.swift",
                   "if engine?.isFollowedInPart == true { return }",
                   "if engine?.isFollowedInPart == true, !ON { return }"),),
           "SharedFaultTests.readersSeeNoPartOfABatchWhenTakingOverFails"),
    Mutant("half-a-batch-keeps-its-number", "no false report of damage",
           (engine("Engine/Log.swift", "if isWhole { lastSequence =",
                   "if ON || isWhole { lastSequence ="),),
           "SharedFaultTests.readersSeeNoPartOfABatchWhenTakingOverFails"),
]
