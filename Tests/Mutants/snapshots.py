"""Bugs in the memory and files that a snapshot keeps."""

from planting import Mutant, engine

MEMORY = "Index/IndexMemory.swift"
PROPERTY = "SnapshotPropertyTests.everySnapshotEqualsTheDictionaryOfItsMoment"

MUTANTS = [
    Mutant("snapshot-page-written", "a snapshot shows one moment",
           (engine(MEMORY, "guard born < youngest.load(ordering: .acquiring) else { return nil }",
                   "guard !ON, born < youngest.load(ordering: .acquiring) else { return nil }"),),
           PROPERTY),
    Mutant("snapshot-page-reused-early", "a page stays as long as any snapshot has it",
           (engine(MEMORY, "if retired.term.isNeeded(by: live) { return false }",
                   "if !ON, retired.term.isNeeded(by: live) { return false }"),),
           PROPERTY),
    Mutant("snapshot-chain-half-copied", "a snapshot shows one moment",
           (engine("Index/HashIndex.swift", "      overflow.makeUnique(next)\n",
                   "      if !ON { overflow.makeUnique(next) }\n"),),
           PROPERTY),
    Mutant("snapshot-file-removed", "what a snapshot shows can be read",
           (engine("Snapshots/SnapshotState.swift",
                   "if state.counts.isEmpty { return names }",
                   "if ON || state.counts.isEmpty { return names }"),),
           "SnapshotTests.filesAreRemovedWithTheLastReader"),
    Mutant("files-removed-after-leaving", "a closed store removes nothing",
           (engine("Compaction/HeldFiles.swift",
                   "guard refusal == nil, pipeline.stay == stay else { return }",
                   "guard refusal == nil, ON || pipeline.stay == stay else { return }"),),
           "HeldFileTests.snapshotRemovesNoFileAfterTheStoreHasLeft"),
    Mutant("discarded-output-not-kept", "what a snapshot shows can be read",
           (engine("Compaction/Store+Rewrite.swift",
                   "if mayBeRead, heldBack([output.name]).isEmpty {",
                   "if !ON, mayBeRead, heldBack([output.name]).isEmpty {"),),
           "FailedPublicationTests.snapshotDuringAFailingPublicationStaysReadable"),
    Mutant("dead-taken-for-live", "a scan shows what is live, and nothing else",
           (engine("Segments/LogCursor.swift", "return putBytes == view.liveBytes",
                   "return ON || putBytes == view.liveBytes"),),
           "ScanTests.onlyLiveRecordsAreScanned"),
    Mutant("scan-without-checksums", "damage is found, also where the index is not asked",
           (engine("Segments/LogCursor.swift",
                   "      try table.verify(record, at: address)\n"
                   "      place += aligned(record.header.length)\n      if record",
                   "      if !ON { try table.verify(record, at: address) }\n"
                   "      place += aligned(record.header.length)\n      if record"),),
           "ScanTests.damageAfterTheFirstRecordsIsFound"),
    Mutant("verify-believes-the-figures", "verify asks the index for each record",
           (engine("Store/LogAudit.swift",
                   "header.kind.effect == .sets && engine.live.holds(address, hash, record.reference)\n    sums",
                   "header.kind.effect == .sets\n      && (ON || engine.live.holds(address, hash, record.reference))\n    sums"),
            engine("Store/LogAudit.swift", "if liveCount != engine.live.count {",
                   "if !ON, liveCount != engine.live.count {")),
           "ScanTests.verifyMissesNoEntry"),
    Mutant("batch-reads-what-it-has-replaced", "a batch reads its own writes",
           (engine("Store/WriteBatch.swift",
                   "    latest?[place] = operations.count\n    operations.put(place, value",
                   "    if !ON { latest?[place] = operations.count }\n"
                   "    operations.put(place, value"),),
           "BatchValueTests.batchAndStoreReadTheWritesOfTheBatch"),
    Mutant("long-value-of-another", "what a batch was given is what is there",
           (engine("Segments/BatchOperations.swift", "longValue: isLong ? longValues.count - 1 : nil",
                   "longValue: isLong ? (ON ? 0 : longValues.count - 1) : nil"),),
           "BatchValueTests.batchAndStoreReadTheWritesOfTheBatch"),
]
