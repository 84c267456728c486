import ArgumentParser
import Moraine
import SystemPackage

struct Restore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Creates a store from a backup.",
    discussion: """
      Every byte is copied, read again and checked before the store appears: the
      result is a complete store or none. The backup is not changed. Exit code 3 if
      it is damaged.

      --through N restores the state after that operation. N can be any sequence
      number since the last compaction; `moraine dump BACKUP --format hex` prints
      them.

        moraine restore /mnt/backup/users users.moraine
        moraine restore /mnt/backup/users yesterday --through 81234

      With --json one object: sequence, count, segmentCount, sharedSegmentCount,
      copiedBytes, totalBytes, checkedBytes, elapsedMilliseconds.
      """)
  @Argument(help: "The backup's directory.", completion: .directory) var backup: String
  @Argument(help: "The new store's directory: missing or empty.", completion: .directory)
  var directory: String
  @Option(help: "The sequence number of the last operation to restore.") var through: UInt64?
  @Flag(help: "Print one JSON object.") var json = false

  func validate() throws {
    guard let through, through > SequenceNumber.max.rawValue else { return }
    throw ValidationError("--through is at most \(SequenceNumber.max)")
  }

  func run() async throws {
    let bar = ProgressBar("restoring")
    defer { bar.finish() }
    let report = try await Store.restore(
      FilePath(backup), to: FilePath(directory),
      through: through.map { SequenceNumber(rawValue: $0) }
    ) { progress in
      bar.update(progress.completedBytes, of: progress.totalBytes)
    }
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
