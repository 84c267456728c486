"""Bugs in segments that are created ahead of need, and in the pauses of writers."""

from planting import Mutant, engine

ROTATION = "Store/Store+Rotation.swift"

MUTANTS = [
    Mutant("spare-used-before-it-is-listed", "P2: a kill loses no acknowledged write",
           (engine(ROTATION, "let spare = engine!.log.spare, spare.isListed, spare.fits(count)",
                   "let spare = engine!.log.spare, ON || spare.isListed, spare.fits(count)"),
            engine("Engine/Log+Spare.swift", "precondition(spare.isListed,",
                   "precondition(ON(spare-used-before-it-is-listed) || spare.isListed,"),
            engine("Engine/Log.swift", "if let spare { next.segments.append(spare.entry) }",
                   "if let spare, !ON(spare-used-before-it-is-listed) {\n"
                   "      next.segments.append(spare.entry)\n    }")),
           "SpareSegmentTests.killedStoreOpensWithASpareSegment"),
    Mutant("full-segment-not-sealed", "P3: the old segment is durable before the new one",
           (engine(ROTATION, "        try seal.run(pipeline)\n        seal.prefault()\n        try publisher",
                   "        if !ON { try seal.run(pipeline) }\n        seal.prefault()\n"
                   "        try publisher"),),
           "crash-test --scenario spare-rotation-sync-mapped"),
    Mutant("spare-survives-the-close", "a closed store has only the files that it lists",
           (engine("Store/Store+Close.swift", "if let spare { do throws(StoreError) { try await discard",
                   "if let spare, !ON { do throws(StoreError) { try await discard"),),
           "SpareSegmentTests.closedStoreHasNoSpareSegment"),
    Mutant("rotation-waits-for-the-spare", "a writer waits for no sync",
           (engine(ROTATION, "if writing.isPreparingSpare, engine!.log.growActive(for: count)",
                   "if !ON, writing.isPreparingSpare, engine!.log.growActive(for: count)"),),
           "SpareSegmentTests.noWriterWaitsWhileTheNextSegmentIsCreated"),
    Mutant("long-value-pauses-once", "writers: garbage stays limited, however long a value is",
           (engine("Store/CompactionState.swift", "let bytes = max(Double(count), least / rate)",
                   "let bytes = ON ? least / rate : max(Double(count), least / rate)"),),
           "IdleCompactionTests.longUnitsPauseForAllOfTheirBytes"),
    Mutant("rotation-ends-the-pauses", "writers: garbage stays limited in every segment",
           (engine("Store/Store+Rotation.swift", "if engine!.log.active?.slot != slot {",
                   "if !ON, engine!.log.active?.slot != slot {"),),
           "IdleCompactionTests.rotationKeepsThePausesOfWriters"),
    Mutant("file-without-pauses", "writers: garbage stays limited where files grow with each write",
           (engine("Engine/Log+Spare.swift", "let most = active.allocated == nil",
                   "let most = !ON && active.allocated == nil"),),
           "IdleCompactionTests.writerOfAGrowingFileIsAskedAgain"),
    Mutant("long-value-waits-for-little", "writers: garbage stays limited, however long a value is",
           (engine("Store/CompactionState.swift",
                   "3 * max(progressPieceBytes, count)",
                   "3 * max(progressPieceBytes, ON ? 0 : count)"),),
           "IdleCompactionTests.longUnitsPauseForAllOfTheirBytes"),
    Mutant("successor-without-a-predecessor-refused", "P2: a kill loses no acknowledged write",
           (engine("Recovery/OpenSegment.swift",
                   "if let before, opened.header.predecessor != .none {",
                   "if let before, ON || opened.header.predecessor != .none {"),),
           "SpareSegmentTests.killedStoreOpensWithASpareSegment"),
    Mutant("spare-keeps-its-space", "a full disk: a killed store opens where the log fits",
           (engine("Recovery/Recovery.swift",
                   "for segment in open where segment.isEmpty {\n      try cut(",
                   "for segment in open where segment.isEmpty && !ON {\n      try cut("),),
           "UnprovenTailTests.copyOfATailGetsTheSpaceOfTheSpareSegment"),
    Mutant("spare-unused-on-a-full-disk", "a full disk: all of its space is used",
           (engine(ROTATION,
                   "// The spare segment has some space.\n      if try",
                   "// The spare segment has some space.\n      if !ON, try"),),
           "SpareSegmentTests.spaceThatIsLeftIsUsedOnAFullDisk"),
    Mutant("full-disk-waits-for-no-job", "a full disk: all of its space is used",
           (engine(ROTATION,
                   "      try await pipeline.run { () throws(StoreError) in }\n"
                   "      try await allocate(for: count)",
                   "      if ON { throw error }\n"
                   "      try await pipeline.run { () throws(StoreError) in }\n"
                   "      try await allocate(for: count)"),),
           "SpareSegmentTests.spaceThatIsLeftIsUsedOnAFullDisk"),
    Mutant("failed-rotation-keeps-its-file", "a full disk: a refused write leaves no file",
           (engine(ROTATION, "      await discard(creation)\n",
                   "      let isNext = engine!.log.manifest.nextSegmentNumber\n"
                   "        == creation.header.number.rawValue &+ 1\n"
                   "      let isKept = isNext ? ON(returned-number-keeps-its-file) : ON && !isShared\n"
                   "      if !isKept { await discard(creation) }\n"),),
           "FailedRotationTests.rotationThatFailsBesideACompactionLeavesNoFile"),
    # The edit above contains the code of this bug.
    Mutant("returned-number-keeps-its-file", "a full disk: a refused write leaves no file", (),
           "FailedRotationTests.rotationThatFailsLeavesNoFile"),
    Mutant("opening-ignores-tasks", "a store that was released can be opened again",
           (engine("Recovery/Opener.swift", "guard holder == .leaving || holder == .busy,",
                   "guard holder == .leaving || (holder == .busy && !ON),"),),
           "StorePhaseTests.storeThatIsReleasedDuringATaskCanBeOpened"),
    Mutant("idle-store-keeps-its-garbage", "an idle store gets smaller",
           (engine("Compaction/Store+Compaction.swift",
                   "if strategy.next(figures) != nil || strategy.sealsActive(figures) {\n"
                   "      compactInBackground(.idleness)",
                   "if !ON, strategy.next(figures) != nil || strategy.sealsActive(figures) {\n"
                   "      compactInBackground(.idleness)"),),
           "IdleCompactionTests.idleStoreIsCompactedToItsLimit"),
    Mutant("idle-store-keeps-its-active-segment", "an idle store gets smaller",
           (engine("Compaction/Store+Compaction.swift",
                   "? IdleStrategy(policy: compactionPolicy).sealsActive(figures)",
                   "? !ON && IdleStrategy(policy: compactionPolicy).sealsActive(figures)"),),
           "IdleCompactionTests.activeSegmentOfAnIdleStoreIsSealedForItsGarbage"),
]
