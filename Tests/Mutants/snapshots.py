"""Bugs in what a snapshot keeps."""

from planting import Mutant, engine

MEMORY = "Index/IndexMemory.swift"
PROPERTY = "SnapshotPropertyTests.eachEqualsTheDictionaryOfItsMoment"

MUTANTS = [
    Mutant("snapshot-page-written", "a snapshot shows one moment",
           (engine(MEMORY, "guard born < youngest.load(ordering: .acquiring) else { return nil }",
                   "guard !ON, born < youngest.load(ordering: .acquiring) else { return nil }"),),
           PROPERTY),
    Mutant("snapshot-page-reused-early", "a page stays as long as any snapshot has it",
           (engine(MEMORY, "let isNeeded = live.contains { $0 > retired.born && $0 <= retired.retired }",
                   "let isNeeded = !ON && "
                   "live.contains { $0 > retired.born && $0 <= retired.retired }"),),
           PROPERTY),
    Mutant("snapshot-chain-half-copied", "a snapshot shows one moment",
           (engine("Index/FrozenIndex.swift", "      overflow.thaw(next)\n",
                   "      if !ON { overflow.thaw(next) }\n"),),
           PROPERTY),
    Mutant("snapshot-file-removed", "what a snapshot shows can be read",
           (engine("Snapshots/SnapshotState.swift",
                   "guard count.load(ordering: .acquiring) == 0 else { return [] }",
                   "guard ON || count.load(ordering: .acquiring) == 0 else { return [] }"),),
           "SnapshotTests.filesGoWithTheLastReader"),
]
