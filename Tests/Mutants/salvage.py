"""Bugs in salvaging a damaged store."""

from planting import Mutant, engine

SEGMENT = "Salvage/SegmentSalvage.swift"
SEARCH = "Salvage/SegmentSalvage.swift"
LOADING = "Salvage/SalvageWork.swift"
RANDOM = "SalvageTests.intactRecordsAreRecovered"

MUTANTS = [
    Mutant("salvage-stops-at-a-hole", "what lies after damage is recovered",
           (engine(SEGMENT, "let next = nextRecord(after: offset, to: end)",
                   "let next = ON ? nil : nextRecord(after: offset, to: end)"),),
           RANDOM),
    Mutant("salvage-takes-any-record", "nothing is recovered whose checksum is wrong",
           (engine(SEARCH,
                   "offset }), checksumMatches(base, length, offset)\n",
                   "offset }), ON || checksumMatches(base, length, offset)\n"),),
           RANDOM),
    Mutant("salvage-forgets-the-end-of-a-file", "a segment that is too short is a loss",
           (engine(SEGMENT, "    if offset < known {", "    if !ON, offset < known {"),),
           RANDOM),
    Mutant("salvage-calls-promised-data-torn", "what was promised and is not there is a loss",
           (engine(SEGMENT,
                   "      promise <= last.range.lowerBound\n",
                   "      ON || promise <= last.range.lowerBound\n"),),
           "SalvageTailTests.missingDurableBytesAreALoss"),
    Mutant("salvage-commits-half-a-batch", "a batch that was never committed did not happen",
           (engine(LOADING, "    segment.survivors.removeSubrange(unfinished...)\n",
                   "    if !ON { segment.survivors.removeSubrange(unfinished...) }\n"),
            ),
           "SalvageTailTests.batchWithoutItsEndIsNotRecovered"),
    Mutant("salvage-trusts-a-dictionary", "no value is made with a dictionary that is not proven",
           (engine("Salvage/SegmentSalvage.swift",
                   "dictionary = dictionaries.first {",
                   "dictionary = ON ? Array(source.bytes[128..<(claimedOffset ?? 128)]) "
                   ": dictionaries.first {"),),
           "SalvageDictionaryTests.aDictionaryThatIsNotProvenIsNotUsed"),
    Mutant("salvage-drops-the-order", "an ordered keyspace stays ordered",
           (engine("Salvage/SalvageTarget.swift",
                   "            try operation.isOrdered\n",
                   "            try !ON && operation.isOrdered\n"),),
           "SalvageKeyspaceTests.orderedKeyspacesStayOrdered"),
    Mutant("salvage-fails-at-a-stray-key", "a key that cannot be stored does not end the salvage",
           (engine("Salvage/SalvageTarget.swift",
                   "if isOrdered, record.key.bytes.count > StoreLimits.orderedKeyLengthBytes {",
                   "if !ON, isOrdered, record.key.bytes.count > StoreLimits.orderedKeyLengthBytes {"),),
           "SalvageKeyspaceTests.keyThatNoOrderedKeyspaceCanHoldIsALossUnlessItWasRemoved"),
    Mutant("salvage-goes-file-by-file", "sequence numbers decide, not files",
           (engine(LOADING,
                   "    group.order.sort { ($0.sequence, $0.segment) "
                   "< ($1.sequence, $1.segment) }\n",
                   "    if !ON { group.order.sort { ($0.sequence, $0.segment) "
                   "< ($1.sequence, $1.segment) } }\n"),),
           "SalvageOverlapTests.segmentsThatCompactionReplacedChangeNothing"),
    Mutant("salvage-shows-half-a-store", "the new store appears whole or not at all",
           (engine("Salvage/Store+Salvage.swift",
                   "      var target = SalvageTarget(",
                   "      if ON { try await thread.run { () throws(StoreError) in "
                   "try ManifestFile(staged.base).write(try ManifestFile.read("
                   "staged.directory, DirectoryContents(staged.directory))!, "
                   "over: Manifest.fileName) } }\n"
                   "      var target = SalvageTarget("),),
           "SalvageCrashTests.everyCrashLeavesAWholeStoreOrNoStore"),
    Mutant("salvage-drops-a-batch-before-a-hole", "a batch that records follow has happened",
           (engine(SEGMENT, "    if before != nil { unfinished = nil }\n",
                   "    if !ON, before != nil { unfinished = nil }\n"),),
           "SalvageTests.theManifestIsNotNeeded"),
    Mutant("salvage-heeds-any-manifest", "a manifest that is too old does not say what counts",
           (engine("Salvage/SalvageFiles.swift",
                   "isOurs(header), header.generation > manifest.generation\n",
                   "!ON, isOurs(header), header.generation > manifest.generation\n"),),
           "SalvageMixUpTests.manifestThatIsTooOldIsIgnored"),
    Mutant("salvage-believes-names", "a segment is what its header says, not its name",
           (engine("Salvage/SalvageFiles.swift",
                   "where headers[name].map({ isOurs($0) && $0.number == name }) ?? false {",
                   "where headers[name].map({ isOurs($0) && (ON || $0.number == name) }) "
                   "?? false {"),),
           "SalvageMixUpTests.swappedFilesAreRecoveredCompletely"),
    Mutant("salvage-lets-others-share", "no segment is removed before a salvage has read it",
           (engine("Backup/RestoreWork.swift", "opener.readsAlone = use == .readingAlone",
                   "opener.readsAlone = !ON && use == .readingAlone"),),
           "SalvageLockTests"),
    Mutant("immutable-lock-file-ends-the-salvage", "a store is salvaged where nothing is written",
           (engine("Peers/SharedLink.swift", "|| errno == .notPermitted ||",
                   "|| (!ON && errno == .notPermitted) ||"),),
           "SalvageLockTests"),
    Mutant("refused-lock-ends-the-salvage", "a store on NFS is salvaged where nothing is written",
           (engine("Recovery/Opener.swift",
                   "guard readsAlone, error.errno == .badFileDescriptor else",
                   "guard !ON, readsAlone, error.errno == .badFileDescriptor else"),),
           "SalvageLockTests.sharedLockTakesThePlaceOfALockThatIsRefused"),
    Mutant("no-lock-file-no-lock", "no segment is removed before a salvage has read it",
           (engine("Recovery/Opener.swift", "if file == nil, !readsAlone { return nil }",
                   "if file == nil, ON || !readsAlone { return nil }"),),
           "SalvageLockTests.salvageOfAStoreWithoutALockFileKeepsOthersOut"),
]
