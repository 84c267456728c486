"""Bugs in sharing one store between several processes."""

from planting import Mutant, engine

BURSTS = "Sharing/Store+WriterLease.swift"
SUSPENDING = "Sharing/Store+Suspend.swift"
DEATH = "SharedDeathTests.survivorsContinueAfterAWriterDied"
PROPERTY = "SharedPropertyTests.sharedStoreEqualsADictionary"

MUTANTS = [
    Mutant("dead-writer-unnoticed", "rule 6: no process appends to what a dead writer wrote",
           (engine(BURSTS, "if page.load(.leaseHolder) != 0 { return try",
                   "if page.load(.leaseHolder) != 0, !ON { return try"),), DEATH),
    Mutant("unpublished-tail-cut", "P7: what was written as a whole counts, with its number",
           (engine("Sharing/EngineState+PeerWrites.swift",
                   "    result.validEnd = max(published, result.validEnd)\n",
                   "    result.validEnd = ON ? published : max(published, result.validEnd)\n"),), DEATH),
    Mutant("count-goes-on-after-a-suspension", "P8: checkpoints cost a share of the writing",
           (engine("Sharing/Store+Suspend.swift",
                   "    checkpoints.beginCounting(\n",
                   "    if !ON { checkpoints.beginCounting(\n"),
            engine("Sharing/Store+Suspend.swift",
                   "writtenBytes: compaction.writtenBytes)\n",
                   "writtenBytes: compaction.writtenBytes) }\n")),
           "SuspendingTests.noCheckpointIsDueAfterASuspensionWithoutWrites"),
    Mutant("failed-sync-kept-secret", "P6: the first failed sync stops every writer",
           (engine(BURSTS, "if page.load(.poison) != 0 {", "if page.load(.poison) != 0, !ON {"),),
           "SharedDeathTests.failedSyncStopsTheWritersOfAllProcesses"),
    Mutant("footer-after-the-end", "what a mapping writes after a file's end is lost",
           (engine("Sharing/EngineState+PeerWrites.swift",
                   "let hasRoom = length >= log.table[slot].end + ActiveSegment.reservedBytes",
                   "let hasRoom = ON || length >= log.table[slot].end + ActiveSegment.reservedBytes"),),
           "SharedStoreTests.mappedStoreSealsTheLogOfAPositionalStore"),
    Mutant("old-manifest-believed", "what others have published is there, or it is an error",
           (engine("Sharing/EngineState+PeerWrites.swift",
                   "guard next.generation >= snapshot.generation else",
                   "guard ON || next.generation >= snapshot.generation else"),),
           "SharedErrorTests.oldManifestIsAnError"),
    Mutant("batch-reads-without-the-lock", "P9: one writer at a time, from the batch's reading on",
           (engine("Store/Store+Writes.swift",
                   "    try await passGate()\n    guard isShared else {\n",
                   "    try await passGate()\n    guard isShared, !ON else {\n"),),
           "SharedStoreTests.batchInASharedStoreSeesNoOtherWriterBetweenReadAndWrite"),
    Mutant("others-not-followed", "a read sees what any process has acknowledged",
           (engine("Sharing/Store+PeerWrites.swift",
                   "guard link.page.load(.version) != peers.seenVersion else {",
                   "guard !ON, link.page.load(.version) != peers.seenVersion else {"),),
           "SharedStoreTests.everyProcessSeesTheWritesOfAllProcesses"),
    Mutant("two-compact-at-once", "one process at a time rewrites segments",
           (engine("Sharing/Store+WriterLease.swift",
                   "    let hasCompactor = try link.tryCompactor()\n",
                   "    let hasCompactor = try link.tryCompactor() || ON\n"),),
           "SharedStoreTests.compactionsOfTwoProcessesTakeTurns"),
    Mutant("long-read-gives-up", "what another process has compacted away is no damage",
           (engine("Sharing/Store+PeerWrites.swift",
                   "    guard error.code == .corrupted else { return false }",
                   "    guard error.code == .corrupted, !ON else { return false }"),),
           "LongReadTests.longReadIsRightOrRefusedWhileAnotherProcessCompacts"),
    Mutant("resume-beside-a-suspension", "P1: what was written is found, or an error is thrown",
           (engine("Concurrency/AsyncGate.swift", "    guard isHeld else { return take() }\n",
                   "    guard isHeld, !ON else {\n"
                   "      isHeld = true\n"
                   "      return\n"
                   "    }\n"),
            engine("Concurrency/AsyncGate.swift",
                   "    precondition(isHeld, \"a task passed on a gate that no task holds\")\n", "")),
           "SuspendingTests.resumingWaitsForASuspensionUnderWay"),
    Mutant("closed-store-resumed", "a closed store says so",
           (engine(SUSPENDING, "    if isClosed { throw closedError }\n    observers",
                   "    if isClosed, !ON { throw closedError }\n    observers"),),
           "SuspendingTests.closingEndsAResumptionUnderWay"),
    Mutant("incomplete-publication-ignored", "a read sees what any process has acknowledged",
           (engine("Sharing/Store+PeerWrites.swift", "else { return .incomplete }",
                   "else { return ON ? .followed : .incomplete }"),),
           "SharedDeathTests.readersContinueAfterAWriterDiedWhilePublishing"),
    Mutant("dead-publisher-not-read", "P4: the store always opens",
           (engine("Sharing/Opener+SharedStore.swift",
                   "    guard page.snapshot() == nil else { return nil }",
                   "    guard !ON, page.snapshot() == nil else { return nil }"),),
           "SharedDeathTests.readersContinueAfterAWriterDiedWhilePublishing"),
    Mutant("dead-publisher-not-awaited", "a reader waits for a writer that lives",
           (engine("Sharing/Opener+SharedStore.swift",
                   "    if !hasWriter, let reading = try SharedLink(reading: directory) {",
                   "    if !hasWriter, !ON, let reading = try SharedLink(reading: directory) {"),),
           "SharedDeathTests.readerWaitsForAWriterStoppedDuringAPublication"),
    Mutant("damage-taken-for-a-dead-writers-end", "P3: damage is reported, and no end of the log",
           (engine("Recovery/Recovery.swift", "if let following, !following.takesAllUnits {",
                   "if let following, !following.takesAllUnits || ON {"),
            engine("Sharing/Opener+SharedStore.swift",
                   "    guard following.tailSegment == entry.number.rawValue else { return }\n",
                   "    if ON, following.takesAllUnits {\n"
                   "      let length = Int(clamping: listing.segments[entry.number] ?? 0)\n"
                   "      _ = try state.replayOn(slot, length: length)\n"
                   "      return\n"
                   "    }\n"
                   "    guard following.tailSegment == entry.number.rawValue else { return }\n")),
           "SharedDeathTests.damageBelowAMarkIsReportedAfterADeathDuringAPublication"),
    Mutant("number-of-a-dead-writer-given-again", "P7: no number is given twice",
           (engine("Sharing/Opener+SharedStore.swift", "lastSequence: page.lastUsedSequence,",
                   "lastSequence: ON ? 0 : page.lastUsedSequence,"),
            engine(BURSTS, "max(engine!.log.lastSequence, link.page.lastUsedSequence)",
                   "ON ? engine!.log.lastSequence "
                   ": max(engine!.log.lastSequence, link.page.lastUsedSequence)")),
           "SharedDeathTests.numberThatADeadWriterUsedUpIsNotGivenAgain"),
    Mutant("number-raised-before-the-tail-is-read", "P7: survivors go on after a death",
           (engine(BURSTS, "    let tail = try engine!.recoverTail()\n",
                   "    if ON {\n"
                   "      engine!.log.lastSequence = max(\n"
                   "        engine!.log.lastSequence, link.page.lastUsedSequence)\n"
                   "    }\n"
                   "    let tail = try engine!.recoverTail()\n"),),
           "SharedDeathTests.survivorReadsThePublicationsOfADeadWriterFirst"),
    Mutant("link-not-looked-for", "a read sees what any process has acknowledged",
           (engine("Peers/SharedLink.swift",
                   "    try waitForWriter(patienceNanoseconds: 1_000_000_000)",
                   "    if ON, try !tryWriter() { return false }\n"
                   "    try waitForWriter(patienceNanoseconds: 1_000_000_000)"),),
           "SharedWaitTests.readerWithoutALinkDoesNotAnswerOldValuesBesideAWriter"),
    Mutant("state-of-another-page", "a state is followed by the page that it was read with",
           (engine("Sharing/Store+PeerWrites.swift", "peers.recordNewState(nonce: followed.nonce,",
                   "peers.recordNewState(nonce: ON ? page.load(.nonce) : followed.nonce,"),),
           "SharedWaitTests.reloadedStateBelongsToThePageOfItsReload"),
    Mutant("useless-opening-watches", "only the files of an open store are watched",
           (engine("Sharing/Store+PeerWrites.swift",
                   "      if engine == nil { pipeline.endWatch() }\n      return",
                   "      if engine == nil, !ON { pipeline.endWatch() }\n      return"),),
           "SuspendingTests.openingThatASuspensionMakesUselessWatchesNoFiles"),
    Mutant("sleep-counts-as-waiting", "`.locked` after a minute of another process's writing",
           (engine("Peers/SharedLink.swift",
                   "min(now &- lastLookNanoseconds, Self.longestLookNanoseconds)",
                   "min(\n"
                   "        now &- lastLookNanoseconds,\n"
                   "        ON ? .max / 64 : Self.longestLookNanoseconds)"),),
           "SharedWaitTests.waitForAWriterCountsObservedTimePerWriter"),
    Mutant("patience-for-all-writers", "`.locked` after a minute of one process's writing",
           (engine("Peers/SharedLink.swift", "      if published != version {",
                   "      if published != version, !ON {"),),
           "SharedWaitTests.waitForAWriterCountsObservedTimePerWriter"),
]
