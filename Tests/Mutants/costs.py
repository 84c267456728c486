"""Bugs in what an operation costs: work that is done again, and memory that is lent."""

from planting import Mutant, engine

MUTANTS = [
    Mutant("kept-deletes-chosen-as-garbage", "P8: compaction comes to an end",
           (engine("Compaction/EngineState+Compacting.swift",
                   "view.lastSequence <= Self.lastDroppableDelete(cleaned, pin: pin)",
                   "view.lastSequence <= Self.lastDroppableDelete(cleaned, pin: ON ? .max : pin)"),),
           "SettledCompactionTests.idleStoreWithALaggingFeedRewritesNothingTwice"),
    Mutant("lent-without-its-mapping", "P9: what is lent stays as it is",
           (engine("Log/EngineState+Values.swift",
                   "return .inPlace(found.record.stored, mapping)",
                   "if ON {\n"
                   "        let none = ZeroedMapping(lengthBytes: 1)\n"
                   "        return .inPlace(found.record.stored, none)\n      }\n"
                   "      return .inPlace(found.record.stored, mapping)"),
            engine("Log/EngineState+Values.swift", "enum StoredValue {",
                   "private final class ZeroedMapping: FileMapping {\n"
                   "  let memory: ZeroedMemory\n  let lengthBytes: Int\n"
                   "  var base: UnsafeMutableRawPointer { memory.base }\n"
                   "  init(lengthBytes: Int) {\n    self.lengthBytes = lengthBytes\n"
                   "    memory = ZeroedMemory(byteCount: lengthBytes)\n  }\n"
                   "  func prefault(from start: Int, to end: Int) {}\n}\n\nenum StoredValue {")),
           "LentValueTests.aLentValueKeepsItsMappingWhileTheBorrowerCallsTheStore"),
    Mutant("applied-within-a-walk", "P9: a walk sees one moment",
           (engine("Sharing/Store+Sharing.swift", "    sharing.walkDepth += 1\n",
                   "    sharing.walkDepth += ON ? 0 : 1\n"),
            engine("Sharing/Store+Sharing.swift", "defer { sharing.walkDepth -= 1 }",
                   "defer { sharing.walkDepth -= ON ? 0 : 1 }")),
           "LentValueTests.callsWithinAWalkSeeTheStoreAsTheWalkDoes"),
    Mutant("compressed-for-each-attempt", "P8: a large value is compressed once",
           (engine("Log/PreparedValue.swift", "    compressed = .some(result)\n",
                   "    compressed = ON ? nil : .some(result)\n"),),
           "LargeRecordTests.aLargeValueIsCompressedOnce"),
    Mutant("all-pages-checked-by-compaction", "P8: pages are checked as they are needed",
           (engine("Compaction/EngineState+Compacting.swift",
                   "    if index.needsCare {\n      for candidate",
                   "    if ON { try admitAll() }\n    if index.needsCare {\n      for candidate"),),
           "LazyPageTests.compactionChecksThePagesOfWhatItCopiesAlone"),
    Mutant("copies-not-counted-by-a-rebuild", "P5: a damaged page of a checkpoint loses nothing",
           (engine("Checkpoint/EngineState+Checkpoint.swift", "if table.isRetiring { lastSequence = 0 }",
                   "if table.isRetiring, !ON { lastSequence = 0 }"),),
           "LazyPageTests.indexMadeAnewBetweenCopyAndInstallLosesNothing"),
    Mutant("page-brought-home-under-a-snapshot", "P5: a snapshot's pages are never written",
           (engine("Index/IndexMemory.swift",
                   "guard !homeTerm.isNeeded(by: state.live) else { return false }",
                   "guard ON || !homeTerm.isNeeded(by: state.live) else { return false }"),),
           "PageHomeTests.indexAndSnapshotsEqualTheirModels"),
    Mutant("pages-stay-away", "P8: the memory of a snapshot is given back",
           (engine("Checkpoint/EngineState+Checkpoint.swift", "    index.tend()\n",
                   "    if !ON { index.tend() }\n"),),
           "PageHomeTests.readsAndCheckpointsBringPagesHome"),
]
