"""Bugs in what several processes do with one store."""

from planting import Mutant, engine

BURSTS = "Sharing/Store+Bursts.swift"
DEATH = "SharedDeathTests.theOthersGoOnBehindAWriterThatDied"
PROPERTY = "SharedPropertyTests.equalsADictionaryWhoeverWrites"

MUTANTS = [
    Mutant("dead-writer-unnoticed", "rule 6: nobody appends behind what a dead writer has left",
           (engine(BURSTS, "if page.load(.burst) != 0 { return try",
                   "if page.load(.burst) != 0, !ON { return try"),), DEATH),
    Mutant("unpublished-tail-cut", "P7: what was written as a whole counts, with its number",
           (engine("Sharing/EngineState+Adopting.swift",
                   "    let end = max(published, result.validEnd)\n",
                   "    let end = ON ? published : max(published, result.validEnd)\n"),), DEATH),
    Mutant("failed-sync-kept-secret", "P6: the first failed sync stops every writer",
           (engine(BURSTS, "if page.load(.poison) != 0 {", "if page.load(.poison) != 0, !ON {"),),
           "SharedDeathTests.aFailedSyncStopsTheWritersOfAll"),
    Mutant("footer-behind-the-end", "what a mapping writes behind a file's end is lost",
           (engine("Sharing/EngineState+Adopting.swift",
                   "let hasRoom = length >= table[slot].end + ActiveSegment.reservedBytes",
                   "let hasRoom = ON || length >= table[slot].end + ActiveSegment.reservedBytes"),),
           "SharedStoreTests.oneWithAMappingEndsWhatOneWithoutHasWritten"),
    Mutant("old-manifest-believed", "what others have published is there, or it is an error",
           (engine("Sharing/EngineState+Following.swift",
                   "guard next.generation >= snapshot.generation else",
                   "guard ON || next.generation >= snapshot.generation else"),),
           "SharedErrorTests.theManifestIsAnOldOne"),
    Mutant("batch-reads-without-the-lock", "P9: one writer at a time, from the batch's reading on",
           (engine("Store/Store+Room.swift",
                   "    try await passGate()\n    guard isShared, !opener.configuration.isReadOnly",
                   "    try await passGate()\n"
                   "    guard isShared, !ON, !opener.configuration.isReadOnly"),
            engine("Store/Store+Room.swift",
                   "  func endUnit() {\n    guard isShared,",
                   "  func endUnit() {\n    guard isShared, !ON,")),
           "SharedStoreTests.whatABatchReadsHoldsWhenItIsWritten"),
    Mutant("others-not-followed", "a read sees what any process has acknowledged",
           (engine("Sharing/Store+Sharing.swift",
                   "guard link.page.load(.version) != sharing.seenVersion,",
                   "guard !ON, link.page.load(.version) != sharing.seenVersion,"),),
           "SharedStoreTests.eachSeesWhatTheOthersWrite"),
    Mutant("two-compact-at-once", "one process at a time rewrites segments",
           (engine("Sharing/Store+Compactor.swift",
                   "    sharing.hasCompactor = try link.tryCompactor()\n",
                   "    sharing.hasCompactor = try link.tryCompactor() || ON\n"),),
           "SharedStoreTests.twoThatCompactAtOnceTakeTurns"),
    Mutant("long-read-gives-up", "what another process has compacted away is no damage",
           (engine("Sharing/Store+Rereading.swift",
                   "    guard error.code == .corrupted else { return false }",
                   "    guard error.code == .corrupted, !ON else { return false }"),),
           "LongReadTests.othersCompactMeanwhile"),
]
