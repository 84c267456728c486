"""Bugs in how an open store notices that its files were deleted, moved or replaced."""

from planting import Mutant, engine, storage

PRESENCE = "Commit/StorePresence.swift"
THREAD = "Commit/CommitPipeline+Thread.swift"
LOCK = "Recovery/Opener+Lock.swift"
SYNC = "ReplacedStoreTests.noSyncIsAcknowledgedAfterwards"

MUTANTS = [
    Mutant("moved-directory-unnoticed", "fault: the store's folder is moved while it is open",
           (engine(PRESENCE, "    if case .some(false) = told(", "    if !ON, case .some(false) = told("),),
           "MovedDirectoryTests.aMovedDirectoryIsNoticedAtTheNextSwap"),
    Mutant("sync-acknowledged-without-a-look", "P1: no acknowledgement for bytes that no name reaches",
           (engine(THREAD, "{ try checkPresence(of: file, syncedTo: offset) }",
                   "{ if !ON { try checkPresence(of: file, syncedTo: offset) } }"),),
           "ReplacedStoreTests.nothingIsAcknowledgedOnceANameLeadsElsewhere"),
    Mutant("foreign-manifest-overwritten", "nothing is renamed over another store's manifest",
           (engine(PRESENCE, "    guard isRight else {", "    guard ON || isRight else {"),), SYNC),
    Mutant("deleted-lock-file-unnoticed", "P9: one writer at a time",
           (engine(PRESENCE, "stamp?.identity != file.identity {",
                   "stamp?.identity != file.identity, !ON {"),), SYNC),
    Mutant("directory-not-locked", "P9: one writer at a time, also when LOCK was deleted",
           (engine(LOCK, "isTaken = try directory.tryLockIfSupported(shared: shared, standIn",
                   "isTaken = try ON ? true : directory.tryLockIfSupported(shared: shared, standIn"),),
           "ReplacedStoreTests.deletingTheLockFileLetsNoSecondWriterIn"),
    Mutant("observers-not-told-of-replacement", "change sequences end with .storeReplaced",
           (engine("Observation/Store+Changes.swift",
                   "    if poison.code == .storeReplaced { throw poison }",
                   "    if poison.code == .storeReplaced, !ON { throw poison }"),), SYNC),
    Mutant("snapshot-files-kept-for-ever", "files of replaced segments go with the last snapshot",
           (engine("Snapshots/SnapshotState.swift",
                   "return left == 0 ? state.takeFree() : []",
                   "return left == 0 && !ON ? state.takeFree() : []"),),
           "SnapshotTests.filesGoWithTheLastReader"),
    Mutant("relative-path-kept", "fault: the process changes its current directory",
           (engine("Store/Store.swift", "try storage.absolute(directory) }",
                   "ON ? directory : try storage.absolute(directory) }"),),
           "CurrentDirectoryTests.changingItAfterOpeningHasNoEffect"),
    Mutant("refused-mapping-is-an-error", "a file system without shared mappings is served",
           (storage("StorageError.swift", ".invalidArgument, .operationNotSupportedByDevice: true",
                    ".invalidArgument: true\n"
                    "    case .operationNotSupportedByDevice: !ON"),),
           "RefusedMappingTests.aStoreWithoutMappingsWorks"),
    Mutant("reader-keeps-the-lock", "P9: readers never block the writer",
           (engine("Recovery/Opener.swift", "      defer { lock?.unlock() }\n",
                   "      defer { if !ON { lock?.unlock() } }\n"),
            engine("Recovery/Opener.swift", "return try openForReading(directory, nil, began)",
                   "return try openForReading(directory, ON ? lock : nil, began)")),
           "ReaderBesideWriterTests.aWriterOpensBesideAReader"),
    Mutant("shared-files-not-watched", "fault: files of a shared store are deleted",
           (engine("Commit/CommitPipeline+Watching.swift",
                   "presence.withLock { $0 }?.add(link.files)",
                   "if !ON { presence.withLock { $0 }?.add(link.files) }"),),
           "ReplacedStoreTests.noSyncIsAcknowledgedAfterwards"),
    Mutant("lock-files-not-compared", "P9: one process appends at a time",
           (engine("Sharing/SharedLink.swift",
                   "guard inode == 0 || inode == file.identity.inode else {",
                   "guard ON || inode == 0 || inode == file.identity.inode else {"),),
           "ReplacedStoreTests.aDeletedLockFileLetsNoSecondWriterIntoASharedStore"),
]
