"""Bugs in giving descriptors back and opening files again."""

from planting import Mutant, engine, storage

FILE = "DiskFile.swift"
DIRECTORY = "DiskDirectory.swift"

MUTANTS = [
    Mutant("descriptors-never-given-back", "limits: idle stores give descriptors back",
           (storage("DescriptorPool.swift", "    while count >= limit.load(ordering: .relaxed), park() {}",
                    "    while !ON, count >= limit.load(ordering: .relaxed), park() {}"),
            storage("SystemCall.swift", "if lacksDescriptor, DescriptorPool.current.park()",
                    "if !ON, lacksDescriptor, DescriptorPool.current.park()")),
           "ManyStoresTests.twoThousandStoresAreOpenUnderALimitOf1024Descriptors"),
    Mutant("parked-directory-not-locked", "P9: one writer at a time, also when LOCK was deleted",
           (storage(DIRECTORY, "    return try !file.tryLock(shared: shared)",
                    "    if ON { return false }\n    return try !file.tryLock(shared: shared)"),),
           "ParkingTests.aDeletedLockLetsNoSecondWriterIntoAParkedDirectory"),
    Mutant("parked-lock-file-not-locked", "P9: one writer at a time",
           (storage(FILE, "      kept.withLock { $0.lock = lock }\n",
                    "      if ON { lock.release() } else { kept.withLock { $0.lock = lock } }\n"),),
           "ParkingTests.aParkedDirectoryStaysLocked"),
    Mutant("lock-moves-with-its-copies", "a child between fork and exec keeps no lock",
           (storage(FILE, "      moraine_unlock(descriptor)\n      guard Self.lock(fresh, shared: shared)",
                    "      if ON {\n"
                    "        kept.withLock { $0.lock = KeptFile(descriptor, lengthBytes: 1) }\n"
                    "        return true\n"
                    "      }\n"
                    "      moraine_unlock(descriptor)\n      guard Self.lock(fresh, shared: shared)"),),
           "ParkingTests.unlockingAParkedDirectoryUnlocksWhateverHasCopiesOfTheDescriptors"),
    Mutant("replaced-file-opened-again", "fault: a file is replaced while the store is open",
           (storage(FILE, "guard isSelf(number) else {", "guard isSelf(number) || ON else {"),),
           "ParkingTests.aParkedFileThatWasReplacedIsNotOpenedAgain"),
    Mutant("replaced-directory-opened-again", "fault: the store's folder is replaced",
           (storage(DIRECTORY, "guard isSame, lockAgain(number) else {",
                    "guard ON || isSame, lockAgain(number) else {"),),
           "ParkingTests.aParkedDirectoryThatWasReplacedIsNotOpenedAgain"),
    Mutant("unsynced-file-parked-like-others", "P1: a sync reports what the first open file has seen",
           (storage(FILE, "guard access == .readWrite else { return true }",
                    "guard !ON, access == .readWrite else { return true }"),),
           "ParkingTests.aParkedFileIsSyncedWithoutADescriptor"),
    Mutant("growth-by-a-spare-chunk-unnoticed", "limits: a typed error where there is no memory",
           (engine("Index/HashIndex+Changing.swift", "    if usedSpare { (isShort",
                   "    if usedSpare, !ON { (isShort"),),
           "RefusedMemoryTests.insertionThatNeedsAChunkSucceedsAndTheNextOneFails"),
    Mutant("reserved-pages-used-by-others", "limits: a compaction that has begun can end",
           (engine("Index/HashIndex.swift", "+ newPages + reservedPages : 0",
                   "+ newPages + (ON ? 0 : reservedPages) : 0"),),
           "RefusedMemoryTests.pagesThatACompactionReservesAreKeptFromOtherChanges"),
    Mutant("snapshot-during-moves-secures-nothing", "limits: a compaction that has begun can end",
           (engine("Index/HashIndex.swift", "if movesUnderWay > 0 {",
                   "if movesUnderWay > 0, !ON {"),),
           "RefusedMemoryTests.snapshotDuringMovesSecuresTheirCopiesFirst"),
]
