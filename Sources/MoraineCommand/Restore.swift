import ArgumentParser
import Moraine
import MoraineArchive
import SystemPackage

struct Restore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Creates a store from a backup or from an archive.",
    discussion: """
      Every byte is copied, read again and checked before the store appears: the
      result is a complete store or none. The backup is not changed. Exit code 3 if
      it is damaged.

      --through N restores the state after that operation. N can be any sequence
      number since the last compaction; `moraine dump BACKUP --format hex` prints
      them.

      From an archive (file:/DIRECTORY or s3://BUCKET/PREFIX), --through takes any
      sequence number that was archived in the history of the newest state, --at a
      moment and --position the number of a commit.

        moraine restore /mnt/backup/users users.moraine
        moraine restore /mnt/backup/users yesterday --through 81234
        moraine restore file:/mnt/nas/users users.moraine --at 2026-11-22T14:05:00Z

      With --json one object: sequence, count, segmentCount, sharedSegmentCount,
      copiedBytes, totalBytes, checkedBytes, elapsedMilliseconds.
      """)
  @Argument(help: "The backup's directory, or an archive.", completion: .directory)
  var backup: String
  @Argument(help: "The new store's directory: missing or empty.", completion: .directory)
  var directory: String
  @Option(help: "The sequence number of the last operation to restore.") var through: UInt64?
  @Option(help: "The moment to restore from an archive, in UTC: 2026-11-22T14:05:00Z.")
  var at: Moment?
  @Option(help: "The position to restore from an archive.") var position: UInt64?
  @Flag(help: "Print one JSON object.") var json = false

  private var archive: ArchivePlace? { ArchivePlace(argument: backup) }

  func validate() throws {
    try StoreOptions.refuseEmpty(backup, "the backup's directory")
    try StoreOptions.refuseEmpty(directory, "the new store's directory")
    if let through, through > SequenceNumber.max.rawValue {
      throw ValidationError("--through is at most \(SequenceNumber.max)")
    }
    let count = (through == nil ? 0 : 1) + (at == nil ? 0 : 1) + (position == nil ? 0 : 1)
    if count > 1 { throw ValidationError("give one of --through, --at and --position") }
    if archive == nil, at != nil || position != nil {
      throw ValidationError(
        "--at and --position are for archives: file:/DIRECTORY or s3://BUCKET/PREFIX")
    }
  }

  private var point: RestorePoint {
    if let through { return .sequence(SequenceNumber(rawValue: through)) }
    if let at { return .time(milliseconds: at.milliseconds) }
    return position.map { .position($0) } ?? .latest
  }

  private func restore(_ bar: ProgressBar) async throws -> RestoreReport {
    if let archive {
      return try await archive.open().restore(to: FilePath(directory), at: point) { progress in
        bar.update(progress.completedBytes, of: progress.totalBytes)
      }
    }
    return try await Store.restore(
      FilePath(backup), to: FilePath(directory),
      through: through.map { SequenceNumber(rawValue: $0) }
    ) { progress in
      bar.update(progress.completedBytes, of: progress.totalBytes)
    }
  }

  func run() async throws {
    let bar = ProgressBar("restoring")
    defer { bar.finish() }
    let report = try await restore(bar)
    bar.finish()
    if json {
      let object: JSONObject = [
        "sequence": report.sequence, "count": report.count, "segmentCount": report.segmentCount,
        "sharedSegmentCount": report.sharedSegmentCount, "copiedBytes": report.copiedBytes,
        "totalBytes": report.totalBytes, "checkedBytes": report.checkedBytes,
        "elapsedMilliseconds": report.elapsedNanoseconds / 1_000_000,
      ]
      return try Output.line(object.json)
    }
    try Output.line(
      "restored to sequence \(report.sequence): \(Units.counted(report.count, "key")), "
        + "\(Units.counted(report.segmentCount, "segment")), \(Units.bytes(report.totalBytes)), "
        + "all bytes checked")
  }
}
