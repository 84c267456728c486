"""Bugs in the cleaning of archives, and in what an archive must not repeat."""

from archive import archive
from planting import Mutant

CLEANER = "Cleaning/ArchiveCleaner.swift"
REMOVABLE = "Cleaning/ArchiveCleaner.swift"
HISTORY = "Restoring/ArchiveHistory.swift"
STATE = "Writing/ArchivedState.swift"
KEPT = "CleaningTests.keptMomentsAreRestoredAndOthersRefused"
EFFORT = "ArchiveEffortTests"

MUTANTS = [
    Mutant("cleaning-removes-above-the-base", "A5, kept commits exist",
           (archive(CLEANER, "before: objects.names.commit(base.position))",
                    "before: objects.names.commit(ON ? base.position + 3 : base.position))"),
            archive(CLEANER, "return position < base.position",
                    "return ON || position < base.position"),), KEPT),
    Mutant("cleaning-removes-an-upload", "A5, the uploads of the writer stay",
           (archive(REMOVABLE, "return object.term < newestTerm ||",
                    "return object.term < newestTerm || ON ||"),),
           "CleaningTests.objectsOfAnUploadStay"),
    Mutant("cleaning-removes-kept-objects", "A5, objects of kept checkpoints exist",
           (archive(REMOVABLE, "if kept.contains(object) { return false }",
                    "if !ON, kept.contains(object) { return false }"),), KEPT),
    Mutant("cleaning-ignores-a-later-term", "A5, a writer that has attached knows older objects",
           (archive(CLEANER, "guard term < ArchiveLimits.term else { return false }",
                    "guard !ON, term < ArchiveLimits.term else { return false }"),),
           "CleaningTests.objectsOfAFencedWriterAreRemovedAfterTheNextCheckpoint"),
    Mutant("cleaning-forgets-gaps", "A5, the contents of gaps exist",
           (archive(CLEANER, "if header.term >= newest.term { break }",
                    "if header.term >= newest.term || ON { break }"),),
           "CleaningTests.gapWithoutACheckpointStays"),
    Mutant("cleaning-overlooks-a-missing-object", "A5, a cleaning makes no damage worse",
           (archive(CLEANER, "guard try await objects.exists(object) else { throw missing(object) }",
                    "guard try await objects.exists(object) || ON else { throw missing(object) }"),),
           "CleaningTests.missingObjectOfAKeptStateStopsTheCleaning"),
    Mutant("cleaning-believes-a-clock", "a clock that jumps takes nothing from what is kept",
           (archive("Cleaning/RetentionRule.swift", "counted += min(milliseconds, longestStep)",
                    "counted += ON ? min(milliseconds, limit) : min(milliseconds, longestStep)"),),
           "RetentionRuleTests.clockThatJumpsRemovesNoMomentOfTheLastDay"),
    Mutant("restore-takes-an-older-moment", "A3, a removed moment is not replaced by another one",
           (archive(HISTORY,
                    "if last == checkpoint?.position, checkpoint?.milliseconds != milliseconds {",
                    "if !ON, last == checkpoint?.position, "
                    "checkpoint?.milliseconds != milliseconds {"),),
           "CleaningTests.momentBetweenTwoKeptCheckpointsIsRefusedInWords"),
    Mutant("cleaning-failure-is-repeated", "a missing permission is reported once",
           (archive("Writing/ArchiveWriter+Cleaning.swift",
                    "error.code == .cancelled || hasCleaningFailed {",
                    "error.code == .cancelled || (!ON && hasCleaningFailed) {"),),
           "CleaningTests.missingPermissionIsReportedOnce"),
    Mutant("dry-run-removes", "a dry run removes nothing",
           (archive(CLEANER, "if isDryRun { return }", "if isDryRun && !ON { return }"),),
           "CleaningTests.dryRunRemovesNothing"),
    Mutant("lost-commit-is-overlooked", "A8, a commit that is missing below the hint is noticed",
           (archive(HISTORY, "guard hintedPosition > end,", "guard !ON, hintedPosition > end,"),),
           "ArchiveDamageTests.missingCommitBeforeTheHintIsRefused"),
    Mutant("used-up-number-is-a-gap", "a failed append makes no gap",
           (archive(STATE, "guard hasAll || isNext ||", "guard (hasAll || isNext) && !ON ||"),
            archive(STATE, "guard hasAll || isLast ||", "guard (hasAll || isLast) && !ON ||"),),
           EFFORT + ".numberOfAFailedAppendIsNoGap"),
    Mutant("interrupted-hold-counts-as-complete", "each shipped state is restored",
           (archive("Writing/ArchiveWriter+Rounds.swift", "isContinuous && retired.isComplete)",
                    "isContinuous && (ON || retired.isComplete))"),),
           EFFORT + ".writerGoesOnAfterAnotherAttachFailed"),
    Mutant("upload-begins-again", "an upload that failed goes on",
           (archive("Writing/ArchiveWriter+Checkpoints.swift", "(known + uploaded.all).map",
                    "(known + (ON ? [] : uploaded.all)).map"),),
           EFFORT + ".uploadThatFailedGoesOnAfterItsSegments"),
    Mutant("attaching-reads-each-commit", "a restored store attaches with few requests",
           (archive("Writing/ArchiveWriter+TakeOver.swift", "for _ in 0..<Self.searchedCommits {",
                    "for _ in 0..<(ON ? Int.max : Self.searchedCommits) {"),),
           EFFORT + ".restoredStoreAttachesWithFewRequests"),
]
