import ArgumentParser
import Moraine
import SystemPackage

struct Backup: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copies a store as it is at one moment.",
    discussion: """
      If the directory holds an earlier backup of the same store, only new data is
      copied. The earlier backup stays valid until the new one is complete. On the
      same file system, sealed segments are shared, not copied: only a backup on
      another disk survives the loss of this one.

      A store that several processes share can be backed up while they write. A
      store that one program opened exclusively is locked: call backup(to:) in that
      program.

        moraine backup users.moraine /mnt/backup/users
        moraine verify /mnt/backup/users
        moraine restore /mnt/backup/users users.moraine

      With --json one object: sequence, segmentCount, keptSegmentCount,
      sharedSegmentCount, copiedBytes, totalBytes, elapsedMilliseconds.
      """)
  @OptionGroup var store: StoreOptions
  @Argument(help: "The backup's directory.", completion: .directory) var target: String
  @Flag(help: "Print one JSON object.") var json = false

  func validate() throws { try StoreOptions.refuseEmpty(target, "the backup's directory") }

  func run() async throws {
    let bar = ProgressBar("backing up")
    defer { bar.finish() }
    let report = try await store.reading { store in
      try await store.backup(to: FilePath(target)) { progress in
        bar.update(progress.completedBytes, of: progress.totalBytes)
      }
    }
    bar.finish()
    if json {
      let object: JSONObject = [
        "sequence": report.sequence, "segmentCount": report.segmentCount,
        "keptSegmentCount": report.keptSegmentCount,
        "sharedSegmentCount": report.sharedSegmentCount, "copiedBytes": report.copiedBytes,
        "totalBytes": report.totalBytes,
        "elapsedMilliseconds": report.elapsedNanoseconds / 1_000_000,
      ]
      return try Output.line(object.json)
    }
    let copied = report.segmentCount - report.keptSegmentCount - report.sharedSegmentCount
    try Output.line(
      "backed up to sequence \(report.sequence): \(Units.counted(report.segmentCount, "segment")), "
        + "\(Units.bytes(report.totalBytes)); \(report.keptSegmentCount) kept, "
        + "\(report.sharedSegmentCount) shared, \(copied) copied "
        + "(\(Units.bytes(report.copiedBytes)))")
  }
}
