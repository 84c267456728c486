"""Bugs in updates and batches of repositories, settings at the end of a process, large values."""

from planting import Edit, Mutant, engine


def typed(path, find, replacement):
    return Edit("Sources/Moraine/" + path, find, replacement)


def command(path, find, replacement):
    return Edit("Sources/MoraineCommand/" + path, find, replacement)


UPDATES = "Repository/LocalRepository+Updates.swift"
LARGE = "LargeValues/LargeValues.swift"

MUTANTS = [
    Mutant("update-reads-before-its-turn", "repositories: no update is lost",
           (typed(UPDATES,
                  "    let (outcome, receipt) = try await commit {\n"
                  "      (batch) throws(StoreError) -> Result<Replacement<Model>, Failure> in\n"
                  "      // Value and expiry of one moment: the model may end while the body runs.\n"
                  "      let stored = try batch.storedVersion(forKey: key, in: keyspace)\n",
                  "    let early = try await ON ? keyspace.versionedValue(forKey: key) : nil\n"
                  "    let (outcome, receipt) = try await commit {\n"
                  "      (batch) throws(StoreError) -> Result<Replacement<Model>, Failure> in\n"
                  "      let stored = try ON ? early : batch.storedVersion(forKey: key, in: keyspace)\n"),),
           "RepositoryUpdateTests.updatesOfTwoProcessesAreNotLost"),
    Mutant("update-knows-no-index", "repositories: an update keeps unique values",
           (typed(UPDATES, "row: try indexes?.row(of: new))", "row: try ON ? nil : indexes?.row(of: new))"),),
           "RepositoryUpdateTests.modelsOfAWriteExchangeUniqueValues"),
    Mutant("update-ends-the-expiry", "repositories: an update keeps the expiry",
           (typed(UPDATES, "encoded, forKey: key, in: keyspace, expiring: time,",
                  "encoded, forKey: key, in: keyspace, expiring: ON ? .never : time,"),),
           "RepositoryUpdateTests.updateKeepsTheExpiryOfTheModel"),
    Mutant("expiring-model-stays-in-memory", "repositories: an expired model is absent",
           (typed(UPDATES, "    if new.expires {\n", "    if !ON, new.expires {\n"),),
           "RepositoryUpdateTests.updateKeepsTheExpiryOfTheModel"),
    Mutant("update-takes-another-id", "repositories: an update changes its own model",
           (typed(UPDATES, "guard keys.key(new.id) == key else {",
                  "guard ON || keys.key(new.id) == key else {"),),
           "RepositoryUpdateTests.updateThatThrowsWritesNothing"),
    Mutant("batch-applies-every-change", "repositories: the last change of a model counts",
           (typed("Repository/RepositoryBatch.swift", "latest[$1.operation.key] == $0",
                  "ON || latest[$1.operation.key] == $0"),),
           "RepositoryUpdateTests.batchReadsItsOwnWritesAndAppliesTheLastOne"),
    Mutant("delete-all-leaves-the-memory", "repositories: deleteAll deletes all",
           (typed(UPDATES, "if let sequence = receipt?.sequence { cache.removeAll(",
                  "if !ON, let sequence = receipt?.sequence { cache.removeAll("),),
           "RepositoryWholeTests.deleteAllLeavesNoModelAndNoEntryOfAnIndex"),
    Mutant("repository-ignores-its-configuration", "repositories: the store has its settings",
           (typed("Repository/LocalRepository+Open.swift",
                  "var configuration = configuration ?? Store.Configuration()",
                  "var configuration = ON ? Store.Configuration() : configuration ?? Store.Configuration()"),),
           "RepositoryConfigurationTests.repositoryOpensItsStoreWithTheConfiguration"),
    Mutant("equal-setting-is-written", "settings: an equal value writes nothing",
           (typed("Persisted/PersistedSpace.swift", "setting.isStored(stored.value, bytes)\n",
                  "!ON && setting.isStored(stored.value, bytes)\n"),),
           "PersistedEndTests.equalValueIsNotWrittenAgain"),
    Mutant("end-of-process-not-watched", "settings: the end of a process in order saves",
           (typed("Persisted/PersistedSpaces.swift", "func watchTheEnd() { _ = Self.isWatching }",
                  "func watchTheEnd() { if !ON { _ = Self.isWatching } }"),),
           "PersistedEndTests.setThatIsUnsavedAtTheEndOfTheProcessIsSaved"),
    Mutant("unsaved-settings-not-named", "settings: what is not saved is named",
           (typed("Persisted/PersistedSpaces.swift",
                  "for space in unsaved where !space.unsavedNames.isEmpty {",
                  "for space in unsaved where !ON && !space.unsavedNames.isEmpty {"),),
           "PersistedEndTests.processSaysWhichSetsItCouldNotSave"),
    Mutant("put-opens-exclusively", "command: put joins a shared store",
           (command("StoreOptions.swift", "configuration.sharing = wasShared && !isAlone ? .shared",
                    "configuration.sharing = !ON && wasShared && !isAlone ? .shared"),
            command("StoreOptions.swift", "guard error.code == .locked, mayShare, wasShared",
                    "guard !ON, error.code == .locked, mayShare, wasShared")),
           "SharedStoreCommandTests.commandsWriteIntoAStoreThatIsShared"),
    Mutant("archive-joins-a-shared-store", "command: a store that was shared is archived",
           (command("Archive/ArchiveCommands.swift", "isAlone: true) { store in",
                    "isAlone: !ON) { store in"),),
           "ArchiveCommandTests.storeThatWasSharedIsArchived"),
    Mutant("large-value-without-its-claim", "large values: a value is whole or absent",
           (engine(LARGE, "guard try batch.value(forKey: header.id.claimKey, in: values.pieces) == claim",
                   "guard try ON ? true : batch.value(forKey: header.id.claimKey, in: values.pieces) == claim"),),
           "LargeValueTests.abandonedPiecesAreRemovedAndTheirWriterIsRefused"),
    Mutant("old-pieces-are-not-marked", "large values: no pieces without a value stay",
           (engine(LARGE,
                   "        try batch.set(values.claim(0), forKey: id.claimKey, in: values.pieces)\n"
                   "      }\n",
                   "        if !ON { try batch.set(values.claim(0), forKey: id.claimKey, in: values.pieces) }\n"
                   "      }\n"),),
           "LargeValueTests.crashLeavesTheOldValueOrTheNewOne"),
    Mutant("header-before-the-pieces", "large values: a value is whole or absent",
           (engine(LARGE, "        if !buffer.isEmpty { try await writePiece() }\n",
                   "        if !ON, !buffer.isEmpty { try await writePiece() }\n"),),
           "LargeValueTests.valueIsReadAsItWasWritten"),
    Mutant("large-value-goes-on-after-an-error", "large values: a value is whole or absent",
           (engine(LARGE, "        failure = error\n", "        failure = ON ? nil : error\n"),),
           "LargeValueTests.writerThatFailedNeverCommits"),
    Mutant("equal-by-its-own-rule", "settings: a set value is saved",
           (typed("Persisted/PersistedBox.swift", "guard let value, stored.count == encoded.count else { return false }",
                  "guard !ON, let value, stored.count == encoded.count else { return ON }"),),
           "PersistedEndTests.valuesThatATypeCallsEqualAreSaved"),
    Mutant("set-does-not-renew", "settings: a set renews an entry that expires",
           (typed("Persisted/PersistedSpace.swift", "guard keyspace.defaultExpiry == .never else",
                  "guard ON || keyspace.defaultExpiry == .never else"),
            typed("Persisted/PersistedSpace.swift", "guard let stored, stored.expiry == .never,",
                  "guard let stored, ON || stored.expiry == .never,")),
           "PersistedEndTests.equalValueRenewsAnEntryThatExpires"),
    Mutant("cache-forgets-deletions", "repositories: deleteAll deletes all",
           (typed("Repository/ModelCache.swift", "guard limit > 0, entry.sequence > floor else",
                  "guard limit > 0, ON || entry.sequence > floor else"),),
           "ModelCacheTests.entriesOfEarlierCommitsStayOutAfterADeletionOfAll"),
    Mutant("update-makes-permanent", "repositories: an update keeps the expiry",
           (typed(UPDATES, "let time = expiry == .unchanged ? stored?.expiry ?? .never : expiry",
                  "let time = ON ? expiry : expiry == .unchanged ? stored?.expiry ?? .never : expiry"),),
           "RepositoryUpdateTests.modelThatEndsDuringItsUpdateEnds"),
    Mutant("large-checksum-unchecked", "large values: damage is reported",
           (engine("LargeValues/LargeValue.swift",
                   "guard checksum.value == value.header.checksum else {",
                   "guard ON || checksum.value == value.header.checksum else {"),),
           "LargeValueTests.damageIsReported"),
]
