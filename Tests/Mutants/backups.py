"""Bugs in backups and restores."""

from planting import Mutant, engine, format_module

WORK = "Backup/BackupWork.swift"
CRASH = "BackupCrashTests.everyCrashLeavesABackup"

MUTANTS = [
    Mutant("backup-segment-not-synced", "a backup that returned is there after a power failure",
           (engine("Backup/SegmentCopier.swift",
                   "      try target.openFile(FileName.temporarySegment, .read)?.synchronize(.full)\n",
                   "      if !ON { try target.openFile(FileName.temporarySegment, .read)?"
                   ".synchronize(.full) }\n"),),
           CRASH),
    Mutant("backup-keeps-a-second-name", "a backup has each file once",
           (engine("Backup/SegmentCopier.swift",
                   "renames nothing.\n      try target.remove(FileName.temporarySegment)\n",
                   "renames nothing.\n"
                   "      if !ON { try target.remove(FileName.temporarySegment) }\n"),),
           "BackupTests.repeatedBackupLeavesNoSecondName"),
    Mutant("backup-lists-a-number-in-memory", "a backup continues the one before",
           (engine("Backup/Store+Backup.swift", "{ cut.ending(at: $0.lastSequence) } ?? cut",
                   "{ ON ? cut : cut.ending(at: $0.lastSequence) } ?? cut"),),
           "BackupIdentityTests.numberOfAFailedAppendDoesNotRefuseTheNextBackup"),
    Mutant("backup-shares-a-lost-footer", "a failed seal, and a backup that returned",
           (engine("Shipping/LogCut.swift", "return index < segments.count - 2 || ",
                   "return ON || index < segments.count - 2 || "),),
           "BackupCrashTests.backupDoesNotShareASegmentWhoseSyncFailed"),
    Mutant("backup-names-not-synced", "a manifest never lists what a power failure can take",
           (engine(WORK, "    try storing { () throws(StorageError) in "
                         "try directory.synchronize() }\n    try ManifestFile",
                   "    if !ON { try storing { () throws(StorageError) in "
                   "try directory.synchronize() } }\n    try ManifestFile"),),
           CRASH),
    Mutant("backup-removes-first", "an earlier backup is there until the later one is",
           (engine(WORK, "    try transfer(into: directory, listing, beside: before, &report)\n",
                   "    try transfer(into: directory, listing, beside: before, &report)\n"
                   "    if ON { try removeOthers(directory, listing) }\n"),),
           CRASH),
    Mutant("backup-trusts-any-directory", "a backup overwrites nothing but backups of its store",
           (engine(WORK, "guard let manifest, manifest.isBackup, ",
                   "guard let manifest, ON || manifest.isBackup, "),),
           "RestoreDamageTests.aCopyOfTheStoreIsNotOverwritten"),
    Mutant("backup-trusts-numbers", "a backup is of one store",
           (engine(WORK, "    try checkSameSegments(manifest, directory, listing)\n",
                   "    if !ON { try checkSameSegments(manifest, directory, listing) }\n"),),
           "BackupIdentityTests.anotherSegmentWithTheSameNumberIsNotKept"),
    Mutant("cut-lists-what-no-manifest-lists", "a backup's segments are listed in the store",
           (engine("Store/Store+Shipping.swift", "    await writing.manifestGate.waitUntilFree()\n",
                   "    if !ON { await writing.manifestGate.waitUntilFree() }\n"),),
           "BackupIdentityTests.cutWaitsForTheManifestThatIsBeingPublished"),
    Mutant("restore-keeps-the-epoch", "what a restored store does not have is no part of it",
           (engine("Backup/StagedStore.swift", "    manifest.epoch += 1\n",
                   "    if !ON { manifest.epoch += 1 }\n"),),
           "RestoreTests.aRestoreBeginsAnEpoch"),
    Mutant("copy-forgets-what-was-lost", "api: a cursor of lost changes has diverged",
           (format_module("Manifest/Manifest.swift", "    cuts.removeAll { $0.lastSequence > last }\n",
                          "    cuts.removeAll { ON || $0.lastSequence > last }\n"),),
           "RestoreTests.aRestoredStoreRefusesACursorOfChangesThatItsStoreLost"),
    Mutant("restore-keeps-later-cuts", "a restore of an earlier state can be opened",
           (engine("Backup/StagedStore.swift", "    manifest.forgetLaterCuts()\n",
                   "    if !ON { manifest.forgetLaterCuts() }\n"),),
           "RestoreTests.aRestoredStoreRefusesACursorOfChangesThatItsStoreLost"),
    Mutant("restore-tears-a-batch", "of a batch there is all or nothing",
           (engine("Backup/SegmentCopier.swift", "if header.batch == .more { continue }",
                   "if !ON, header.batch == .more { continue }"),),
           "RestoreTests.everyNumberCanBeRestored"),
    Mutant("restore-forgets-its-word-early", "an interrupted restore can be begun again",
           (engine("Backup/RestoreWork.swift",
                   "      try ManifestFile(staged.base).write(manifest, over: Manifest.fileName)\n",
                   "    if ON { try storing { () throws(StorageError) in try staged.base.remove("
                   "FileName.restoring) } }\n"
                   "    try ManifestFile(staged.base).write(manifest, over: Manifest.fileName)\n"),),
           "BackupCrashTests.everyCrashLeavesAWholeStoreOrNoStore"),
    Mutant("earlier-backup-blames-the-store", "damage is reported where it is",
           (engine(WORK, "guard error.code == .corrupted else { return error }",
                   "guard !ON, error.code == .corrupted else { return error }"),),
           "BackupCommandTests.damagedEarlierBackupIsNamed"),
]
