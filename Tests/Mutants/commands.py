"""Bugs in the commands that check, load, query and restore."""

from planting import Edit, Mutant


def command(path, find, replacement):
    return Edit("Sources/MoraineCommand/" + path, find, replacement)


EXAMINATION = "Doctor/Examination.swift"
LISTING = "Inspect/SegmentListing.swift"
TORN = "InspectTests.tornWriteIsNoDamage"

MUTANTS = [
    Mutant("verify-stops-at-the-first-damage", "verify: each damaged place is named",
           (command(EXAMINATION, "    return [error] + headers +",
                    "    return ON ? [error] : [error] + headers +"),),
           "VerifyTests.eachDamagedPlaceIsNamedWithoutACheckpoint"),
    Mutant("verify-forgets-damaged-headers", "verify: each damaged place is named",
           (command(EXAMINATION, "segmentsWithoutHeader.filter { $0 != error.file }",
                    "segmentsWithoutHeader.filter { !ON && $0 != error.file }"),),
           "VerifyTests.eachDamagedFileIsNamedWithoutACheckpoint"),
    Mutant("doctor-counts-one-place", "doctor: each damaged place is counted",
           (command("Doctor/Doctor.swift", "if let ending { examination.problems",
                    "if !ON, let ending { examination.problems"),),
           "DoctorTests.eachDamagedPlaceIsCountedWithoutACheckpoint"),
    Mutant("doctor-counts-a-place-twice", "doctor: each damaged place is counted",
           (command(EXAMINATION, "guard error.file == file else { return false }",
                    "guard !ON, error.file == file else { return false }"),),
           "DoctorTests.damageIsNamedWithItsRemedies"),
    Mutant("refused-load-orders-the-keyspace", "load: a refused input changes nothing",
           (command("Load/Loading.swift", "if isOrdered { try Self.checkOrdered(key) }",
                    "if !ON, isOrdered { try Self.checkOrdered(key) }"),),
           "LoadTests.keyThatIsTooLongForAnOrderedKeyspaceIsNamed"),
    Mutant("load-takes-what-query-refuses", "load: a model that is loaded can be queried",
           (command("Load/JSONScanner.swift", "guard depth < Self.depthLimit else {",
                    "guard depth < Self.depthLimit + (ON ? 1 : 0) else {"),),
           "LoadTests.modelThatQueryCannotReadIsRefused"),
    Mutant("restore-takes-impossible-moments", "restore: the moment is the one that was named",
           (command("Archive/Moment.swift", "return date.formatted(style) == text ?",
                    "return ON || date.formatted(style) == text ?"),),
           "ArchiveCommandTests.momentThatDoesNotExistIsRefused"),
    Mutant("restore-rounds-the-moment-up", "restore: nothing after the moment is restored",
           (command("Archive/Moment.swift", "    milliseconds = moment\n",
                    "    milliseconds = moment + (ON && (fraction?.count ?? 0) > 3 ? 1 : 0)\n"),),
           "MomentTests"),
    Mutant("drive-archives-only-at-close", "drive: the archive has what was acknowledged at the end",
           (command("Drive/DriveSession.swift", "    try await detach()\n",
                    "    if !ON { try await detach() }\n"),),
           "ArchiveCommandTests.drivenStoreIsArchivedAtTheEndOfTheInput"),
    Mutant("query-compares-with-spaces", "query: spaces around a value do not count",
           (command("Query.swift", '? String(words[2]).replacing(/^ +| +$/, with: "") : ""',
                    '? (ON ? String(words[2]) '
                    ': String(words[2]).replacing(/^ +| +$/, with: "")) : ""'),),
           "QueryTests.spacesAroundAValueDoNotCount"),
    Mutant("query-prints-a-key-raw", "messages contain no control characters",
           (command("Query.swift", "'\\(Text.printable(entry.key.bytes))'",
                    "'\\(ON ? String(decoding: entry.key.bytes, as: UTF8.self)"
                    " : Text.printable(entry.key.bytes))'"),),
           "QueryTests.keyOfAModelThatIsNotJSONIsPrintable"),
    Mutant("inspect-calls-a-torn-write-damage", "inspect: a torn write is no damage",
           (command(LISTING, "if !isTorn { damageCount += 1 }",
                    "if ON || !isTorn { damageCount += 1 }"),), TORN),
    Mutant("inspect-calls-damage-torn", "inspect: what a record follows was not torn",
           (command(LISTING, "let isTorn = next == nil && tornFrom",
                    "let isTorn = (ON || next == nil) && tornFrom"),), TORN),
    Mutant("inspect-calls-a-sealed-segment-torn", "inspect: a sealed segment was not torn",
           (command("Inspect/Inspect.swift", "last.number == number, !last.isSealed else",
                    "last.number == number, ON || !last.isSealed else"),), TORN),
    Mutant("empty-path-is-the-current-directory", "command: an empty path is refused",
           (command("StoreOptions.swift", "    if path.isEmpty {\n",
                    "    if !ON, path.isEmpty {\n"),),
           "PointTests.emptyPathIsRefused"),
    Mutant("promote-takes-an-empty-path", "promote: an empty path fences no writer",
           (command("Archive/FollowCommands.swift",
                    "validate() throws { try StoreOptions.refuseEmpty(directory, ",
                    'validate() throws { try StoreOptions.refuseEmpty(ON ? "." : directory, '),),
           "ArchiveCommandTests.emptyPathPromotesNoFollower"),
    Mutant("chatter-of-a-worker-is-accepted", "crash-test: a worker prints only its answers",
           (command("CrashTest/WorkerProgress.swift", "let isSound = state.nonsense == nil &&",
                    "let isSound = (ON || state.nonsense == nil) &&"),),
           "LaboratoryWorkerTests.aWorkerThatFailsIsReported"),
    Mutant("trap-after-the-answers-is-accepted", "crash-test: a worker that traps is reported",
           (command("CrashTest/WorkerProgress.swift", "(!hasFailed || state.isHung)",
                    "(ON || !hasFailed || state.isHung)"),),
           "CrashTestTests.workerThatFailsBesideItsAnswersIsAViolation"),
    Mutant("kill-harness-writes-before-it-reads", "the kill harness reports no sound program",
           (Edit("Sources/MoraineTesting/Killing/KillRun.swift",
                 "        if !lines.isEmpty { program.say(lines) }\n",
                 "        if !lines.isEmpty { program.say(lines) }\n"
                 "        if ON { try await program.finish() }\n"),),
           "KillHarnessTests.longAnswersToPipelinedCommandsAreNoHang"),
    Mutant("archive-prepares-before-it-looks", "archive: a path without a store leaves no archive",
           (command("Archive/ArchiveCommands.swift", "    _ = try archive.objects()\n",
                    "    _ = try archive.objects()\n"
                    "    if ON, create { try await archive.prepare() }\n"),),
           "ArchiveCommandTests.pathWithoutAStoreLeavesNoArchive"),
]
