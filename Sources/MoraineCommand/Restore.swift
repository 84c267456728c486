import ArgumentParser
import Moraine
import SystemPackage

struct Restore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes a store of a backup.",
    discussion: """
      Every byte is copied, read again and checked before there is a store: it is
      there whole, or not at all. The backup stays as it is. Exit code 3 when it is
      damaged.

      With --through N the store is as it was behind that sequence number: any since
      the last compaction. `moraine dump BACKUP --format hex` prints the numbers.

        moraine restore /mnt/backup/users users.moraine
        moraine restore /mnt/backup/users yesterday --through 81234

      With --json one object: sequence, count, segmentCount, sharedSegmentCount,
      copiedBytes, totalBytes, checkedBytes, elapsedMilliseconds.
      """)
  @Argument(help: "The backup's directory.", completion: .directory) var backup: String
  @Argument(help: "Where the store will be: missing, or empty.", completion: .directory)
  var directory: String
  @Option(help: "The last operation to have.") var through: UInt64?
  @Flag(help: "As one JSON object.") var json = false

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
        + "all of it checked")
  }
}
