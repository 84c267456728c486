import ArgumentParser
import Moraine
import SystemPackage

struct Doctor: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Describes the state of a store and recommends what to do.",
    discussion: """
      Reads every byte and changes nothing. Reports whether the store is sound, how
      it was last closed and what the next opening will do about that, how much of
      it is garbage, its keyspaces and their indexes, and which files do not belong
      to it. Exit code 3 if the store is damaged. A damaged index checkpoint
      (*.index) is reported, and is no damage to the store: the log is read instead.

      --archive PLACE also reads the archive of the store, and compares the numbers
      of their last operations. Exit code 10 if the archive cannot be read.

      --salvage NEW creates a new store from all intact records of a damaged store,
      and lists the losses: file, offset, sequence numbers, and the keys that can
      still be read. The damaged store is not changed. Exit code 3 if acknowledged
      data is lost. No program may have the store open. If you have a backup,
      restore it first.

        moraine doctor users.moraine
        moraine doctor users.moraine --salvage rescued.moraine
        moraine doctor users.moraine --archive file:/mnt/nas/users

      With --json one object: isSound, wasClean, count, expiredCount, segmentCount,
      diskBytes, liveBytes, spaceAmplification, keyspaces, problems and advice, where
      expiredCount has the keys that will be deleted; with --archive
      also archive: id, storeID, sequence, position, time and unarchivedCount, or
      problem; for a damaged index checkpoint also checkpointProblem, an object
      like those of problems; for a damaged store also
      salvage: the recordCount that a salvage would bring back, and its losses. With
      --salvage isComplete, count, recordCount, segmentCount, readBytes, losses and
      torn, arrays of kind, file, offset, lengthBytes, reason, recordCount, after,
      before, breaksBatch and keys, and segmentsWithoutHeader, ignoredFiles,
      elapsedMilliseconds.
      """)
  @OptionGroup var store: StoreOptions
  @Option(
    help: ArgumentHelp(
      "Copy all intact records into a new store in this missing or empty directory.",
      valueName: "directory"),
    completion: .directory)
  var salvage: String?
  @Option(help: "Compare the store with its archive: file:/DIRECTORY, or s3://BUCKET/PREFIX.")
  var archive: ArchivePlace?
  @Flag(help: "Print one JSON object.") var json = false

  func validate() throws {
    if let salvage { try StoreOptions.refuseEmpty(salvage, "the new store's directory") }
    if salvage != nil, archive != nil {
      throw ValidationError("--salvage and --archive exclude each other")
    }
  }

  func run() async throws {
    if let salvage { return try await rescue(into: salvage) }
    let bar = ProgressBar("reading")
    defer { bar.finish() }
    var examination: Examination
    // The damage that ended the opening.
    var ending: StoreError?
    // Before the store is read: in a live store the archive is never ahead of it then.
    var comparison: ArchiveComparison?
    if let archive { comparison = try await ArchiveComparison(archive) }
    do {
      examination = try await store.reading { store in
        let report = try await store.verify { progress in
          bar.update(progress.completedBytes, of: progress.totalBytes)
        }
        let recovery = await store.recoveryReport
        let problems = Examination.problems(of: report, recovery)
        let isSound = problems.isEmpty
        let statistics = try await store.statistics()
        return Examination(
          problems: problems, statistics: statistics,
          expiredCount: isSound ? try await store.expiredCount(of: statistics) : 0,
          recovery: recovery, segments: try await store.segmentStatistics(),
          figures: isSound ? try await KeyspaceFigures(store) : nil)
      }
    } catch let error as StoreError where error.code == .corrupted {
      // Opening stops at the first damage.
      examination = Examination(problems: [error])
      ending = error
    }
    if examination.problems.contains(where: \.isDamageOfTheLog) {
      let survey = try await Store.survey(FilePath(store.directory))
      examination.survey = survey
      if let ending { examination.problems = survey.problems(after: ending) }
    }
    examination.archive = comparison
    do { examination.manifest = try store.manifest() } catch  where !examination.problems.isEmpty {
      // The problems say already that the manifest is damaged.
    }
    bar.finish()
    try Output.line(
      json ? examination.json(directory: store.directory) : examination.text(store.directory))
    guard !examination.problems.isEmpty else {
      if comparison?.problem != nil { throw Failure(code: 10, message: nil) }
      return
    }
    let isDamaged = examination.problems.contains { $0.code == .corrupted }
    throw Failure(code: isDamaged ? 3 : examination.problems[0].exitCode, message: nil)
  }

  private func rescue(into path: String) async throws {
    let bar = ProgressBar("salvaging")
    defer { bar.finish() }
    let report = try await Store.salvage(FilePath(store.directory), to: FilePath(path)) {
      bar.update($0.completedBytes, of: $0.totalBytes)
    }
    bar.finish()
    let text = SalvageText(report: report)
    try Output.line(json ? text.json : text.lines(into: path))
    guard report.isComplete else { throw Failure(code: 3, message: nil) }
  }
}
