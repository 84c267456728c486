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
           (engine(ROTATION, "do throws(StoreError) { try seal.run(pipeline) } catch {}",
                   "if !ON { do throws(StoreError) { try seal.run(pipeline) } catch {} }"),),
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
           (engine("Compaction/Store+Compaction.swift",
                   "let bytes = max(WriterDelay.shortestPiece, min(count, Log.largestStep))",
                   "let bytes = ON ? WriterDelay.shortestPiece\n"
                   "        : max(WriterDelay.shortestPiece, min(count, Log.largestStep))"),
            engine("Compaction/Store+Compaction.swift",
                   "let pieces = UInt64(min(64, max(1, count / bytes)))",
                   "let pieces = ON(long-value-pauses-once)\n"
                   "        ? 1 : UInt64(min(64, max(1, count / bytes)))")),
           "IdleCompactionTests.garbageOfLongValuesStaysLimited"),
    Mutant("successor-without-a-predecessor-refused", "P2: a kill loses no acknowledged write",
           (engine("Recovery/OpenSegment.swift",
                   "if let before, opened.header.predecessor != .none {",
                   "if let before, ON || opened.header.predecessor != .none {"),),
           "SpareSegmentTests.killedStoreOpensWithASpareSegment"),
]
