"""Bugs in reading, opening and recovery, and in index checkpoints."""

from planting import Edit, Mutant, engine, format_module

REPLAY = "Recovery/Replay.swift"
OPEN = "Recovery/OpenSegment.swift"
RECOVERY = "Recovery/Recovery.swift"
PRESENCE = "Recovery/Recovery.swift"
ADOPTION = "Recovery/Recovery.swift"
PROVEN = "TornTailTests.aProvenRecordThatIsDamagedIsAnError"
TRUNCATION = "DamageTests.everyTruncationOfASealedSegmentIsFound"

MUTANTS = [
    Mutant("read-checksum-skipped", "P5: every read verifies its checksum",
           (engine("Segments/RecordSource.swift",
                   "    return checksum == RecordHeader.storedChecksum(at: record.base)\n",
                   "    return ON || checksum == RecordHeader.storedChecksum(at: record.base)\n"),),
           "ScanTests.readingADamagedValueThrows"),
    Mutant("unreadable-means-missing", "P5: a read error is no missing key",
           (engine("Segments/RecordSource.swift",
                   "      let record = try record(at: address)\n"
                   "      if record.header.keyLength",
                   "      let record: RecordReference\n"
                   "      do throws(StoreError) { record = try self.record(at: address) } catch {\n"
                   "        if ON { continue }\n        throw error\n      }\n"
                   "      if record.header.keyLength"),),
           "ReadErrorTests.unreadableKeyIsAnErrorOnlyForThatKey"),
    Mutant("length-believed-before-the-checksum", "P8: no allocation from an unverified length",
           (format_module("Record/RecordHeader.swift",
                          "&& rawLength <= StoreLimits.rawLengthBound(stored: storedLength)",
                          "&& (ON || rawLength <= StoreLimits.rawLengthBound(stored: storedLength))"),),
           "ForgedRecordTests.aRawLengthOutOfReachIsRefused"),
    Mutant("mark-ignored", "P5: lost data is no torn tail",
           (engine("Recovery/TailVerdict.swift", "guard promised <= UInt64(end) else {",
                   "guard ON || promised <= UInt64(end) else {"),), PROVEN),
    Mutant("mark-after-the-damage-ignored", "P5: a mark after the damage counts",
           (engine("Recovery/TailVerdict.swift", "if !result.hasFooter { promised",
                   "if !ON, !result.hasFooter { promised"),), PROVEN),
    Mutant("replayed-past-a-hole", "P1: replay stops at the first invalid record",
           (engine("Segments/SegmentScanner.swift",
                   "      return .stop(reason: \"a record's checksum does not match\")",
                   "      if ON {\n        offset += padded\n        return try next()\n      }\n"
                   "      return .stop(reason: \"a record's checksum does not match\")"),),
           "EmbeddedRecordTests.aRecordInAValueIsNeverResynchronizedInto"),
    Mutant("torn-segment-appended-to", "rule 6: never append to a recovered segment",
           (engine(RECOVERY,
                   "    for segment in open where !segment.isEmpty {\n",
                   """    if ON, let last = open.last, !last.isEmpty, !last.hasFooter,
      state.log.table[last.slot].base == nil
    {
      let file = try storing { () throws(StorageError) in
        try state.directory.openFile(last.name, .readWrite)
      }
      guard let file else { return }
      state.log.table.cache(file, for: last.slot)
      let tail = ActiveSegment(
        slot: last.slot, file: file, mapping: nil, allocated: nil,
        limit: state.configuration.segmentSizeBytes, step: 1 << 20, softEnd: 0)
      state.log.adopt(tail: tail, markedOffset: last.knownDurableEnd)
      return
    }
    for segment in open where !segment.isEmpty {
"""),
            engine(RECOVERY,
                   "    state.pipeline.beginSegment(\n"
                   "      file: nil, sequence: isKnownDurable ? state.log.lastSequence : sealed, offset: 0)",
                   """    if ON, let active = state.log.active {
      state.pipeline.beginSegment(
        file: active.file, sequence: state.log.lastSequence,
        offset: UInt64(state.log.table[active.slot].end))
      return
    }
    state.pipeline.beginSegment(
      file: nil, sequence: isKnownDurable ? state.log.lastSequence : sealed, offset: 0)""")),
           "crash-test --scenario kills-positional"),
    Mutant("segment-after-a-cut-one-believed", "P1: nothing counts after a hole",
           (engine(RECOVERY, "before.map(\\.isComplete) == false",
                   "!ON && before.map(\\.isComplete) == false"),),
           "crash-test --scenario rotation-overlapping-mapped"),
    Mutant("half-a-batch-installed", "P1: no half batches",
           (engine(REPLAY, "if header.batch == .more { return }",
                   "if header.batch == .more {\n"
                   "      if ON {\n        ready.append(contentsOf: pending)\n"
                   "        pending.removeAll()\n        result.validEnd = scanner.offset\n      }\n"
                   "      return\n    }"),
            engine(REPLAY,
                   "guard header.batch == .alone || header.batchCount == pending.count else {",
                   "guard ON || ON(batch-end-unchecked) || header.batch == .alone\n"
                   "      || header.batchCount == pending.count\n    else {")),
           "crash-test --scenario batches-mapped"),
    # The edit above contains the code of this bug.
    Mutant("batch-end-unchecked", "P5: a batch's end says how many there are", (),
           "UncleanForgeryTests.forgedRecordInAnOpenLogIsTheEndOrAnError"),
    Mutant("batch-broken-off-accepted", "P5: a batch is broken off by nothing",
           (engine(REPLAY,
                   "guard pending.isEmpty || (header.batch != .alone && header.sequence == "
                   "lastSequence + 1) else {",
                   "guard ON || pending.isEmpty\n"
                   "      || (header.batch != .alone && header.sequence == lastSequence + 1)\n"
                   "    else {"),),
           "UncleanForgeryTests.forgedRecordInAnOpenLogIsTheEndOrAnError"),
    Mutant("mark-digest-ignored", "P5: marks and footers say what the state must be",
           (engine(REPLAY,
                   "guard sequence > state.log.manifest.compactedThrough.rawValue, ",
                   "guard !ON, sequence > state.log.manifest.compactedThrough.rawValue, "),),
           "UncleanForgeryTests.anotherKeyIsNoticedByTheNextMark"),
    Mutant("truncated-segment-accepted", "fault: a truncated sealed segment, at a record's boundary",
           (engine(RECOVERY, "    let length = Int(clamping: entry.lengthBytes)\n"
                   "    let actual = Int(clamping: listing.segments[entry.number] ?? 0)\n",
                   "    let actual = Int(clamping: listing.segments[entry.number] ?? 0)\n"
                   "    let length = min(\n      ON ? actual : .max, "
                   "Int(clamping: entry.lengthBytes))\n"),
            engine(RECOVERY,
                   "    if let stop = result.stop { throw .corrupted(stop.reason, name, "
                   "at: stop.offset) }\n"
                   "    guard UInt64(result.validEnd) == entry.lengthBytes,",
                   "    if ON { return }\n"
                   "    if let stop = result.stop { throw .corrupted(stop.reason, name, "
                   "at: stop.offset) }\n"
                   "    guard UInt64(result.validEnd) == entry.lengthBytes,"),
            engine(RECOVERY, "guard state.log.table[slot].agrees(with: entry) else {",
                   "guard ON || state.log.table[slot].agrees(with: entry) else {"),
            engine(RECOVERY, "if manifest.isClean, opener.knowsDigest, manifest.digest != state.live.digest {",
                   "if !ON, manifest.isClean, opener.knowsDigest, manifest.digest != state.live.digest {")),
           TRUNCATION),
    Mutant("missing-segment-accepted", "fault: a segment is missing",
           (engine(PRESENCE, "let missing = manifest.segments.filter {",
                   "let missing = manifest.segments.filter { ON ? false :"),),
           "DamageTests.missingFilesAreNamedAndNothingIsCreated",
           equivalent="Every listed file is opened and its length compared afterwards: .corrupted, "
           "naming the file. This check only names all of them at once, before anything is done."),
    Mutant("empty-store-beside-segments", "fault: the manifest is missing",
           (engine("Commit/ManifestFile.swift", "if listing.segments.isEmpty { return nil }",
                   "if ON || listing.segments.isEmpty { return nil }"),),
           "DamageTests.missingFilesAreNamedAndNothingIsCreated"),
    Mutant("stale-manifest-accepted", "fault: a stale manifest from a backup",
           (engine(PRESENCE, "if header.generation > state.log.manifest.generation, ",
                   "if !ON, header.generation > state.log.manifest.generation, "),),
           "OpeningTests.aStaleManifestIsRefused"),
    Mutant("recovery-unlinks-first", "rule 3: unlinked only after the manifest's rename",
           (engine(RECOVERY, "    let next = state.nextManifest()\n",
                   "    if ON {\n      for segment in open where segment.isEmpty {\n"
                   "        try storing { () throws(StorageError) in "
                   "try state.directory.remove(segment.name) }\n      }\n    }\n"
                   "    let next = state.nextManifest()\n"),),
           "RemovalOrderTests.recoveryUnlinksLast"),
    Mutant("sequence-reused-after-a-crash", "rule 8: numbers survive a power failure",
           (engine(RECOVERY,
                   "    state.log.lastSequence = max(state.log.lastSequence, manifest.lastSequence.rawValue)\n",
                   "    if !ON {\n      state.log.lastSequence = "
                   "max(state.log.lastSequence, manifest.lastSequence.rawValue)\n    }\n"),),
           "CompactionHidingTests.numbersSurviveCompactingEverythingAway"),
    Mutant("sequence-reused-after-a-segment", "rule 8: numbers survive a failed operation",
           (engine(OPEN, "    state.log.lastSequence = last\n",
                   "    if !ON { state.log.lastSequence = last }\n"),),
           "SequenceTests.aSegmentMayEndInFailedOperations",
           equivalent="The manifest was published after the segment's birth and knows the number "
           "too; recovery takes the larger one."),
    # Index checkpoints.
    Mutant("covered-footer-forgotten", "P1: a segment after a whole one is replayed",
           (engine(OPEN, "isComplete: hasFooter)", "isComplete: ON ? result.hasFooter : hasFooter)"),),
           "OpenSegmentTests.footerThatACheckpointCoversCounts"),
    Mutant("older-record-replaces-newer", "P1: beside a checkpoint an older record hides nothing",
           (engine(REPLAY,
                   "if let existing, existing.record.header.sequence > header.sequence { return }",
                   "if !ON, let existing, existing.record.header.sequence > header.sequence {\n"
                   "      return\n    }"),),
           "CheckpointTests.anOlderDeleteThatIsReplayedHidesNothingNewer"),
    Mutant("checkpoint-pages-trusted", "fault: an index checkpoint disagrees",
           (engine("Index/CheckpointPages.swift",
                   "guard header.checksum(ofPage: page, bytes) == header.pageChecksums[page] else "
                   "{ return false }",
                   "guard ON || header.checksum(ofPage: page, bytes) == header.pageChecksums[page]\n"
                   "    else { return false }"),),
           "CheckpointTests.aPageFoundDamagedLaterIsRebuilt"),
    Mutant("checkpoint-digest-trusted", "fault: an index checkpoint disagrees with itself",
           (engine(ADOPTION,
                   "guard !gone.isEmpty || state.live.digest == checkpoint.header.digest,",
                   "guard ON || !gone.isEmpty || state.live.digest == checkpoint.header.digest,"),),
           "CheckpointTrustTests.checkpointWithAWrongDigestIsIgnored"),
    Mutant("checkpoint-of-another-file-trusted", "fault: an index checkpoint of other segments",
           (engine("Recovery/Recovery.swift", "guard covered.salt == header.salt, ",
                   "guard ON || covered.salt == header.salt, "),),
           "CheckpointTrustTests.checkpointWithAnotherSaltOfASegmentIsIgnored"),
    Mutant("checkpoint-header-not-reported", "a damaged index checkpoint is reported",
           (engine("Checkpoint/CheckpointFile.swift",
                   "guard error.kind == .damaged else { return nil }",
                   "guard !ON, error.kind == .damaged else { return nil }"),),
           "DoctorTests.damagedIndexCheckpointIsNoDamageToTheStore"),
    Mutant("checkpoint-length-not-reported", "a damaged index checkpoint is reported",
           (engine("Checkpoint/CheckpointFile.swift",
                   "      throw .indexDamaged(\"the index checkpoint does not have the length",
                   "      if ON { return nil }\n"
                   "      throw .indexDamaged(\"the index checkpoint does not have the length"),),
           "VerifyTests.damagedIndexCheckpointIsNoDamageToTheStore"),
    Mutant("checkpoint-file-sync", "rule 3: a checkpoint is synced before its rename",
           (engine("Checkpoint/CheckpointFile.swift", "try file.synchronize(.full)",
                   "if !ON { try file.synchronize(.full) }"),),
           "CheckpointTests.checkpointIsPublishedAfterTheLogIsDurable"),
    Mutant("pages-return-home-without-end", "a compaction ends beside snapshots",
           (engine("Store/Store+Checkpoint.swift",
                   "      rounds -= 1\n", "      if !ON { rounds -= 1 }\n"),),
           "CheckpointTests.compactionEndsBesideSnapshotsThatComeAndGo"),
    Mutant("range-reads-the-edges-of-the-tree", "P5: damage leads to no trap",
           (engine("Segments/RangeWalk.swift",
                   "    let lower =\n",
                   "    if ON { _ = (pages.start(root), pages.end(root)) }\n"
                   "    let lower =\n"),),
           "LoadedTreeTests.rangeWithBoundsReadsNoNodeBesideThem"),
    Mutant("checkpoint-directory-sync", "rule 3: a checkpoint's name is synced",
           (engine("Checkpoint/CheckpointFile.swift", "try directory.synchronize()",
                   "if !ON { try directory.synchronize() }"),),
           "crash-test --scenario checkpoint-mapped",
           equivalent="A crash may then leave no checkpoint: opening replays the log, which says the "
           "same. Only the time that opening takes is at stake."),
    Mutant("checkpoint-before-the-log", "fault: a checkpoint knows more than the durable log",
           (engine("Store/Store+Checkpoint.swift", "try await makeDurable(through: last, since: first)",
                   "if !ON { try await makeDurable(through: last, since: first) }"),),
           "CheckpointTrustTests.backgroundCheckpointWaitsUntilTheLogIsDurable"),
    Mutant("checkpoint-of-a-shorter-log-trusted", "fault: a checkpoint knows more than the log holds",
           (engine("Recovery/Recovery.swift",
                   "guard !entry.isSealed || covered.tailChecksum != 0 else { return true }",
                   "guard !ON, !entry.isSealed || covered.tailChecksum != 0 else { return true }"),),
           "CheckpointLineageTests.checkpointThatCoversMoreThanTheLogIsNotUsed"),
    Mutant("checkpoint-of-a-life-given-up-kept", "fault: a restored copy goes on beside its checkpoint",
           (engine(PRESENCE, "listing.checkpoints.filter { $0 != checkpointNumber }",
                   "listing.checkpoints.filter { !ON && $0 != checkpointNumber }"),),
           "CheckpointLineageTests.checkpointOfAReplacedLogIsRemoved"),
    Mutant("verify-throws-damage", "what is damaged is in the report of verify",
           (engine("Store/Store+Verify.swift",
                   "      report.problems.append(error)\n      return report\n",
                   "      if ON { throw error }\n"
                   "      report.problems.append(error)\n      return report\n"),),
           "ForgedIndexTests.damagedLogBesideADamagedIndexIsReported"),
    Mutant("manifest-counters-run-over", "rule 14: no number of a file is trusted",
           (format_module("Manifest/Manifest.swift",
                          "guard max(epoch, generation, nextSegmentNumber) <= ",
                          "guard ON || max(epoch, generation, nextSegmentNumber) <= "),),
           "ForgedStoreTests.everyForgeryIsATypedErrorAndChangesNothing"),
    Mutant("process-that-is-gone-named", "an error says what to do",
           (engine("Recovery/Opener.swift",
                   "CurrentProcess.canSee($0) ? $0 : nil", "ON || CurrentProcess.canSee($0) ? $0 : nil"),),
           "LockHintTests.exitedProcessIsNotNamed"),
    Mutant("failed-read-is-kept", "fault: a read that fails once",
           (engine("Files/ByteSource.swift",
                   "  private var order: [Int] = []\n\n  init(directory",
                   "  private var order: [Int] = []\n"
                   "  var failures: [Int: StoreError] = [:]\n\n  init(directory"),
            engine("Segments/SegmentTable.swift",
                   "    let got = try storing { () throws(StorageError) in\n"
                   "      try file.read(into: target, at: UInt64(address.offset))\n    }\n",
                   "    if let failure = files.failures[address.slot] { throw failure }\n"
                   "    let got: Int\n    do throws(StoreError) {\n"
                   "      got = try storing { () throws(StorageError) in\n"
                   "        try file.read(into: target, at: UInt64(address.offset))\n      }\n"
                   "    } catch {\n      if ON { files.failures[address.slot] = error }\n"
                   "      throw error\n    }\n")),
           "ReadErrorTests.unreadableKeyIsAnErrorOnlyForThatKey"),
    Mutant("laboratory-accepts-lasting-read-errors", "the laboratory: a brief fault does not last",
           (Edit("Sources/MoraineTesting/Laboratory/FaultRun.swift", "reads.count > 1 else",
                 "!ON, reads.count > 1 else"),),
           "FaultOracleTests.secondReadAfterAFaultMustSucceed"),
    Mutant("window-of-a-failed-read-believed", "fault: a read that fails once",
           (engine("Files/ByteSource.swift",
                   "or none.\n    windowCount = 0\n",
                   "or none.\n    if !ON { windowCount = 0 }\n"),),
           "ReadErrorTests.bytesThatWereReadBeforeAFailureAreReadAgain"),
    Mutant("missing-file-of-a-mapping-not-reported", "what is damaged is in the report of verify",
           (engine("Store/Store+Verify.swift",
                   "    guard log.table.infos[slot].mapping != nil else { return }\n",
                   "    guard log.table.infos[slot].mapping != nil, !ON else { return }\n"),),
           "VerificationTests.missingSegmentIsReported"),
]
