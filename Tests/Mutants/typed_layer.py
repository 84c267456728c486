"""Bugs in the outer layers: stores by name, settings, the command's protocol."""

from planting import Edit, Mutant, engine, storage

REGISTRY = "Registry/StoreRegistry.swift"


def typed(path, find, replacement):
    return Edit("Sources/Moraine/" + path, find, replacement)


MUTANTS = [
    Mutant("closed-store-handed-out", "api: opening by name after a close gives an open store",
           (engine(REGISTRY, "state.entries.removeAll { $0.store?.isClosing ?? true }",
                   "state.entries.removeAll { (ON ? $0.store.map { _ in false } : "
                   "$0.store?.isClosing) ?? true }"),
            engine(REGISTRY, "guard let store = entry.store, !store.isOver else { continue }",
                   "guard let store = entry.store, ON || !store.isOver else { continue }")),
           "StoreByNameTests.openingByNameAfterCloseGivesAStoreThatIsOpen"),
    Mutant("close-not-waited-for", "api: never locked by a store that this process has let go of",
           (engine("Recovery/Opener.swift", "if !isTaken { isTaken = try",
                   "if !ON, !isTaken { isTaken = try"),),
           "StoreByNameTests.openingByNameWaitsForTheCloseThatHasBegun"),
    Mutant("release-not-waited-for", "api: never locked by a store that this process has let go of",
           (engine("Watchers/StorePhase.swift", "case .open: state.store == nil",
                   "case .open: !ON && state.store == nil"),),
           "StorePhaseTests.storeWithoutReferencesIsLeavingUntilItsLockIsFree"),
    Mutant("stores-told-apart-by-path", "api: one directory is one store",
           (engine(REGISTRY,
                   "guard let parent, let theirs = other.parent else { return path == other.path }",
                   "guard !ON, let parent, let theirs = other.parent else "
                   "{ return path == other.path }"),
            engine(REGISTRY, "    return directory == theirs\n  }\n}\n\nextension Store {",
                   "    return ON ? path == opened.path : directory == theirs\n  }\n}\n\n"
                   "extension Store {")),
           "StoreByNameTests.everyPathToADirectoryLeadsToOneStore"),
    Mutant("sharing-not-compared", "api: a store is shared as it was asked for",
           (engine(REGISTRY, "if !acceptsAnySharing, open.sharing != configuration.sharing {",
                   "if !ON, !acceptsAnySharing, open.sharing != configuration.sharing {"),),
           "StoreByNameTests.anotherSharingThanTheStoreHasIsAnError"),
    Mutant("closed-store-answers-from-memory", "api: a closed store throws",
           (engine("Watchers/ChangeMonitor.swift",
                   "for monitor in monitors.all.values { monitor.setUsable(isUsable) }",
                   "if !ON { for monitor in monitors.all.values { monitor.setUsable(isUsable) } }"),),
           "UnusableStoreTests.findThrowsAfterCloseForAModelInMemory"),
    Mutant("suspended-key-is-gone", "api: reads throw, and damage is never taken for absence",
           (engine("Observation/ValueSequence.swift", "    try await checkOpen()\n",
                   "    if ON { try await catchUp() } else { try await checkOpen() }\n"),),
           "UnusableStoreTests.findThrowsWhileSuspendedAndAnswersAfterResuming"),
    Mutant("reader-begins-at-the-beginning", "api: changes() begins with the next change",
           (engine("Observation/ChangeSequence.swift",
                   "let opened = observers.openedSequence.load(ordering: .acquiring)",
                   "let opened = ON ? 0 : observers.openedSequence.load(ordering: .acquiring)"),),
           "SharedFeedTests.changesBeginNowInAnIdleStoreThatIsOpenedForReading"),
    Mutant("error-kept-until-saved", "api: no error for what is on its way",
           (typed("Persisted/PersistedBox.swift",
                  "        // The space saves it.\n        state.error = nil\n",
                  "        if !ON { state.error = nil }\n"),),
           "PersistedErrorTests.overwritingEndsTheErrorAtOnce"),
    Mutant("closed-settings-kept", "api: settings are opened again after a close",
           (typed("Persisted/PersistedSpace.swift",
                  "keyspace?.store.isOver ?? false", "!ON && keyspace?.store.isOver ?? false"),),
           "PersistedTests.reloadOpensAStoreThatWasClosed"),
    Mutant("numbers-of-the-old-store", "api: reload goes on with the store that is there now",
           (typed("Persisted/PersistedBox.swift", "      state.sequence = 0\n",
                  "      if !ON { state.sequence = 0 }\n"),),
           "ReplacedSettingsTests.reloadFollowsTheReplacementStore"),
    Mutant("writing-not-checked-at-opening", "api: opening fails where nothing can be written",
           (storage("DiskStorage.swift",
                    "error.errno == .permissionDenied || error.errno == .readOnlyFileSystem {",
                    "!ON && (error.errno == .permissionDenied "
                    "|| error.errno == .readOnlyFileSystem) {"),),
           "UnwritableDirectoryTests.openingForWritingFailsWhereNothingCanBeWritten"),
    Mutant("batch-answers-the-last-number", "api: batch answers its own last sequence",
           (Edit("Sources/MoraineCommand/Drive/DriveSession.swift",
                 'return "ok " + (receipt.withLock { $0?.sequence }.map { "\\($0)" } ?? "-")',
                 'if ON { return "ok \\(try await store.lastSequence())" }\n'
                 '    return "ok " + (receipt.withLock { $0?.sequence }.map { "\\($0)" } ?? "-")'),),
           "DriveTests.batchAnswersItsOwnSequenceNumberBesideOtherProcesses"),
]
