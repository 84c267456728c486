"""Bugs in keyspaces and in the feed of changes."""

from planting import Mutant, engine

CHANGES = "Observation/EngineState+Changes.swift"

MUTANTS = [
    Mutant("keyspace-written-before-it-is-listed", "P1: a name is durable before what is in it",
           (engine("Keyspaces/Keyspace+Writing.swift", "        try await publishManifest()\n",
                   "        if !ON { try await publishManifest() }\n"),),
           "KeyspaceCrashTests.everyCrashLeavesAPrefix"),
    Mutant("keyspace-unknown-accepted", "P5: damage is detected",
           (engine("Recovery/Replay.swift",
                   "guard state.keyspaces.contains(header.keyspace) else {",
                   "guard ON || state.keyspaces.contains(header.keyspace) else {"),),
           "KeyspaceCrashTests.aRecordOfAnUnknownKeyspaceIsAnError"),
    Mutant("keyspaces-not-counted-again", "fault: a checkpoint older than the last compaction",
           (engine("Recovery/Recovery+Checkpoint.swift",
                   "state.keyspaces.adopt(gone.isEmpty ? checkpoint.header.keyspaces : nil)",
                   "state.keyspaces.adopt("
                   "gone.isEmpty || ON ? checkpoint.header.keyspaces : nil)"),),
           "CompactionPropertyTests.equalsADictionaryWhateverIsCompacted"),
    Mutant("delete-missing-from-the-feed", "api: a delete is never silently missing",
           (engine(CHANGES, "guard horizon > max(place.sequence, place.needlessDeletes) else",
                   "guard !ON, horizon > max(place.sequence, place.needlessDeletes) else"),),
           "ReplicaTests.endsWithWhatTheStoreHas"),
    Mutant("horizon-not-raised", "api: a delete is never silently missing",
           (engine("Store/Store+Rewriting.swift",
                   "before.feedHorizon, SequenceNumber(rawValue: output.lastDroppedDelete))",
                   "before.feedHorizon,\n"
                   "      SequenceNumber(rawValue: ON ? 0 : output.lastDroppedDelete))"),),
           "ReplicaTests.endsWithWhatTheStoreHas"),
    Mutant("unseen-changes-compacted", "api: while it runs, every change",
           (engine("Compaction/EngineState+Compacting.swift",
                   "let free = slots.prefix { table[$0].lastSequence <= least }",
                   "let free = slots.prefix { ON || table[$0].lastSequence <= least }"),),
           "FeedPinTests.compactionInTheBackgroundLeavesWhatWasNotSeen"),
    Mutant("claim-with-the-first-step", "api: every change from the moment the sequence is made",
           (engine("Observation/ChangeSequence.swift", "keyspace: keyspace, pin: pin))",
                   "keyspace: keyspace, pin: ON ? nil : pin))"),),
           "FeedPinTests.compactionLeavesWhatComesBeforeTheFirstStep"),
    Mutant("unseen-delete-dropped", "api: while it runs, every delete",
           (engine("Compaction/EngineState+Compacting.swift",
                   "min(cleanedThrough, observers.pins.leastSequence)",
                   "ON ? cleanedThrough : min(cleanedThrough, observers.pins.leastSequence)"),),
           "ChangeFeedTests.afterAGapTheLatestStatesAndTheDeletesAreThere"),
    Mutant("lost-cursor-believed", "api: a cursor of another lineage has diverged",
           (engine(CHANGES, "guard isOfThisLife, cursor.sequence.rawValue <= lastSequence else",
                   "guard isOfThisLife, ON || cursor.sequence.rawValue <= lastSequence else"),),
           "ChangeFeedTests.aCursorOfLostChangesHasDiverged"),
]
