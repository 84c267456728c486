"""Bugs in the writing and the restore of archives."""

from planting import Edit, Mutant, engine


def archive(path, before, after):
    return Edit(f"Sources/MoraineArchive/{path}", before, after)


ROUNDS = "Writing/ArchiveWriter+Rounds.swift"
TAKE = "Writing/ArchiveWriter+TakeOver.swift"
STATE = "Writing/ArchivedState.swift"
ALL = "ArchiveWriterTests.eachShippedStateIsRestored"

MUTANTS = [
    Mutant("check-races-without-connections", "the check's requests race",
           (archive("Objects/ObjectStoreProbe.swift", "    try await openConnections(single)\n",
                    "    if !ON { try await openConnections(single) }\n"),),
           "ObjectStoreProbeTests.connectionsExistWhenTheRaceBegins"),
    Mutant("check-repeats-lost-answers", "the check compares answers with their effects",
           (archive("Objects/PatientObjectStore.swift",
                    "guard error.code == .unavailable, !error.mayHaveHadEffect else",
                    "guard error.code == .unavailable, ON || !error.mayHaveHadEffect else"),),
           "ArchiveWriterTests.attachRepeatsWhatTheStoreRefusedForTheMoment"),
    Mutant("cut-ignores-replaced-segments", "compaction hands over what was not copied",
           (engine("Store/Store+Shipping.swift", "guard shipping.wants(entry) else { continue }",
                   "guard !ON, shipping.wants(entry) else { continue }"),),
           "ShippingTests.compactionHandsOverWhatWasNotCopied"),
    Mutant("gap-is-not-told", "a gap is followed by a whole copy",
           (engine("Shipping/RetiredSegments.swift", "        state.hasLetGo = true",
                   "        state.hasLetGo = !ON"),),
           "ArchiveWriterTests.gapIsFollowedByAWholeCopy"),
    Mutant("gap-is-forgotten-after-a-failure", "a gap is followed by a whole copy",
           (archive(ROUNDS, "if hasGap { (hasCopy, isContinuous) = (false, false) }",
                    "if hasGap, !ON { (hasCopy, isContinuous) = (false, false) }"),
            archive(ROUNDS, "    if !hasCopy || cut.manifest.epoch != shipped.epoch {",
                    "    if !hasCopy || ON && hasGap || cut.manifest.epoch != shipped.epoch {"),),
           "EveryRequestFaultTests.nothingAcknowledgedIsLostAndTheArchiveGoesOn"),
    Mutant("tail-begins-late", "each shipped state is restored",
           (archive(STATE, "(appended[index], Int(clamping: place.offset))",
                    "(appended[index], Int(clamping: place.offset) + (ON ? 8 : 0))"),), ALL),
    Mutant("commits-between-cuts-are-forgotten", "what a flush acknowledged is restored",
           (archive("Writing/ArchiveWriter+Requests.swift",
                    "      logEnd = open.header.logEnd\n",
                    "      if !ON || open.state != nil { logEnd = open.header.logEnd }\n"),),
           "ArchiveFaultTests.shippingGoesOnInTheMiddleOfACut"),
    Mutant("keyspaces-travel-never", "each shipped state is restored",
           (archive(ROUNDS, "if index == 0 { header.keyspaces = keyspaces }",
                    "if !ON, index == 0 { header.keyspaces = keyspaces }"),), ALL),
    Mutant("restore-forgets-the-order", "each shipped state is restored",
           (archive("Restoring/ArchiveRestore.swift",
                    "if keyspace.isOrdered { manifest.order(keyspace.id) }",
                    "if !ON, keyspace.isOrdered { manifest.order(keyspace.id) }"),), ALL),
    Mutant("idle-writer-ships", "an idle store makes no request",
           (archive(ROUNDS, "let checkpoints = upload == nil && (wantsCheckpoint || isDue)",
                    "let checkpoints = upload == nil && (wantsCheckpoint || isDue || ON)"),
            archive(ROUNDS, "if !tail.parts.isEmpty {", "if !tail.parts.isEmpty || ON {"),),
           "ArchiveWriterTests.idleStoreMakesNoRequest"),
    Mutant("checkpoint-without-its-footer", "a checkpoint is continued",
           (archive(ROUNDS, "if cut.sequence > shipped.sequence || checkpoints {",
                    "if cut.sequence > shipped.sequence || !ON && checkpoints {"),),
           "ArchiveWriterTests.checkpointOfASealedSegmentIsContinued"),
    Mutant("older-copy-attaches", "an older copy of a store is refused",
           (archive(TAKE, "guard state.sequence <= cut.sequence else",
                    "guard ON || state.sequence <= cut.sequence else"),
            archive(TAKE, "start <= segment.lengthBytes else {",
                    "start <= segment.lengthBytes || ON else {"),),
           "ArchiveWriterTests.copyOfAnOpenStoreIsRefused"),
    Mutant("fenced-store-writes", "a fenced store writes nothing more",
           (archive("Writing/ArchiveWriter.swift",
                    "if error.code == .fenced, wasCurrent { store.fence(error.message) }",
                    "if !ON, error.code == .fenced, wasCurrent { store.fence(error.message) }"),),
           "ArchiveWriterTests.laterWriterFencesTheEarlierOne"),
    Mutant("open-commit-is-forgotten", "the same bytes are sent again",
           (archive("Writing/ArchiveWriter+Requests.swift",
                    "pending = PendingCommit(header: header, bytes: bytes, state: state, action: action)",
                    "pending = PendingCommit(header: header, bytes: ON ? bytes + [0] : bytes, "
                    "state: state, action: action)"),), ALL),
    Mutant("restored-number-is-rounded", "each number is restored exactly",
           (archive("Restoring/ArchiveHistory.swift",
                    "if found.lastSequence > sequence { rewindsTo = sequence }",
                    "if !ON, found.lastSequence > sequence { rewindsTo = sequence }"),),
           "ArchiveWriterTests.numberBetweenTwoCommitsIsRestored"),
]
