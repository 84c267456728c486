import ArgumentParser
import Moraine
import SystemPackage

struct Doctor: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Says in plain words how a store is, and what to do.",
    discussion: """
      Reads every byte and changes nothing: whether it is sound, how it was last
      closed and what the next opening will do about that, how much of it is
      garbage, what does not belong there. Exit code 3 when it is damaged.

      --salvage NEW makes a new store of everything that is whole in a damaged one,
      and lists what is not: file, place, sequence numbers, and the keys that can
      still be read. The damaged store stays as it is. Exit code 3 when something
      that was promised is lost. Where there is a backup, restoring it comes first.

        moraine doctor users.moraine
        moraine doctor users.moraine --salvage rescued.moraine

      With --json one object: isSound, wasClean, count, segmentCount, diskBytes,
      liveBytes, spaceAmplification, problems and advice, and of a damaged store
      salvage: the recordCount that one would bring back, and its losses. With
      --salvage isComplete, count, recordCount, segmentCount, readBytes, losses and
      torn, arrays of kind, file, offset, lengthBytes, reason, recordCount, after,
      before, breaksBatch and keys, and segmentsWithoutHeader, ignoredFiles,
      elapsedMilliseconds.
      """)
  @OptionGroup var store: StoreOptions
  @Option(
    help: ArgumentHelp(
      "Make a store of what is whole: here, missing or empty.", valueName: "directory"),
    completion: .directory)
  var salvage: String?
  @Flag(help: "As one JSON object.") var json = false

  func run() async throws {
    if let salvage { return try await rescue(into: salvage) }
    let bar = ProgressBar("reading")
    defer { bar.finish() }
    var examination: Examination
    do {
      examination = try await store.reading { store in
        let report = try await store.verify { progress in
          bar.update(progress.completedBytes, of: progress.totalBytes)
        }
        return Examination(
          problems: report.problems, statistics: await store.statistics,
          recovery: await store.recoveryReport, segments: await store.segmentStatistics)
      }
    } catch let error as StoreError where error.code == .corrupted {
      // Opening goes no further than the first damage.
      examination = Examination(problems: [error])
    }
    if examination.problems.contains(where: { $0.code == .corrupted }) {
      examination.survey = try await Store.survey(FilePath(store.directory))
    }
    bar.finish()
    try Output.line(
      json ? examination.json(directory: store.directory) : examination.text(store.directory))
    guard !examination.problems.isEmpty else { return }
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
