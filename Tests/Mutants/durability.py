"""Bugs in making files durable that a dead process, a user or a failed sync has left."""

from planting import Mutant, engine, storage

OPEN = "Recovery/OpenSegment.swift"
OPENER = "Recovery/Opener.swift"
RESTORE = "Backup/RestoreWork.swift"
TAIL = "UnprovenTailTests.valueServedAfterAFailedSyncSurvivesAPowerFailure"
COPY_CRASH = "UnprovenTailTests.everyCrashDuringTheCopyLeavesAStore"
NAMES = "UnsyncedNamesTests.theNextProcessStandsOnDurableNames"
MADE = "UnsyncedNamesTests.aDirectoryMadeBeforehandSurvivesAPowerFailure"

MUTANTS = [
    Mutant("tail-rewritten-in-place", "fault: a failed sync, a restart, a power failure",
           (engine(OPEN,
                   "    if try replaceFile(file, directory) { return true }\n"
                   "    // The space allocated",
                   """    if ON {
      try copyBytes(of: file, to: file)
      try storing { () throws(StorageError) in
        try file.truncate(to: UInt64(end))
        try file.synchronize(.full)
        try directory.synchronize()
      }
      return false
    }
    if try replaceFile(file, directory) { return true }
    // The space allocated"""),), TAIL),
    Mutant("tail-copy-not-synced", "P4: syncs of files, left out",
           (engine(OPEN,
                   "      try storing { () throws(StorageError) in try copy.synchronize(.full) }\n",
                   "      if !ON { try storing { () throws(StorageError) in "
                   "try copy.synchronize(.full) } }\n"),), TAIL),
    Mutant("tail-copy-name-not-synced", "P4: syncs of directories, left out",
           (engine(OPEN,
                   "      try directory.rename(temporary, to: name)\n"
                   "      try directory.synchronize()\n",
                   "      try directory.rename(temporary, to: name)\n"
                   "      if !ON { try directory.synchronize() }\n"),), COPY_CRASH),
    Mutant("tail-copy-not-read", "P4: what is served is what is durable",
           (engine("Recovery/Recovery.swift",
                   "        try state.reopenFile(segment.slot, length: segment.end)\n",
                   "        if !ON { try state.reopenFile(segment.slot, length: segment.end) }\n"),),
           "OrderTests.unprovenTailIsCopiedBeforeTheCopyIsListed"),
    Mutant("lost-tail-accepted-on-a-full-disk", "P4: in place only what the medium has",
           (engine(OPEN, "        return wanted.elementsEqual(held[..<count])\n",
                   "        return ON || wanted.elementsEqual(held[..<count])\n"),),
           "UnprovenTailTests.aFullDiskThatLostBytesIsNotOpened"),
    Mutant("tail-copy-left", "a leftover of a recovery is removed",
           (engine("Recovery/Recovery.swift", "    if listing.hasTemporarySegment {",
                   "    if !ON, listing.hasTemporarySegment {"),), COPY_CRASH),
    Mutant("parent-not-synced-at-opening", "P1: syncs of the parent, left out",
           (engine(OPENER, "      try directory.synchronizeParent()\n",
                   "      if !ON { try directory.synchronizeParent() }\n"),), MADE),
    Mutant("parent-of-a-target-not-synced", "P1: also of what a backup or a restore fills",
           (engine("Backup/DirectoryLock.swift",
                   "      try createDirectory(path)\n",
                   "      if ON, try openDirectory(path) != nil { return try openDirectory(path) }\n"
                   "      try createDirectory(path)\n"),),
           "UnsyncedNamesTests.targetsMadeBeforehandSurviveAPowerFailure"),
    Mutant("parent-of-an-existing-directory-not-synced", "rule 1: on the real disk",
           (storage("DiskStorage.swift",
                    "      guard error.errno == .fileExists else { throw error }\n",
                    "      guard error.errno == .fileExists else { throw error }\n"
                    "      if ON { return }\n"),),
           "DirectoryBirthTests.creatingADirectoryOpensItsParent"),
    Mutant("names-trusted-at-opening", "P4: one sync before anything is created or removed",
           (engine(OPENER, "      try directory.synchronize()\n",
                   "      if !ON { try directory.synchronize() }\n"),), NAMES),
    Mutant("names-trusted-beside-a-dead-writer", "P4: the same, of a shared store",
           (engine("Sharing/Store+WriterLease.swift",
                   "    try await synchronizeNames(of: directory)\n",
                   "    if !ON { try await synchronizeNames(of: directory) }\n"),),
           "SharedCrashTests.theSurvivorLosesNothingToAPowerFailure",
           equivalent="what the dead writer renamed is published again, and synced, before anything "
                      "that it lists goes; the sync is there for what a later change may add"),
    Mutant("backup-shares-what-is-not-durable", "a failed seal, and a backup that returned",
           (engine("Backup/SegmentCopier.swift", "{ !isCut && isDurable() }",
                   "{ !isCut && (ON || isDurable()) }"),),
           "BackupCrashTests.backupDoesNotShareASegmentWhoseSyncFailed"),
    Mutant("restoring-goes-with-the-rest", "an interrupted restore can be begun again",
           (engine(RESTORE,
                   "      for name in names { try directory.remove(name) }\n"
                   "      try directory.synchronize()\n",
                   "      for name in names { try directory.remove(name) }\n"
                   "      if !ON { try directory.synchronize() }\n"),),
           "UnsyncedNamesTests.failedRestoreOrSalvageCanBeRepeatedAfterAPowerFailure"),
]
