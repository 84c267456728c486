import ArgumentParser
import Moraine
import SystemPackage

struct Backup: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Copies a store as it is at one moment.",
    discussion: """
      Over an earlier backup of the same store only what is new is copied, and the
      old one is there until the new one is complete. On one file system sealed
      segments are shared, not copied: a backup on another disk is what outlives
      this one.

      A store that several processes share is backed up while they write. One that
      a program has for itself is locked: there the program calls backup(to:).

        moraine backup users.moraine /mnt/backup/users
        moraine verify /mnt/backup/users
        moraine restore /mnt/backup/users users.moraine

      With --json one object: sequence, segmentCount, keptSegmentCount,
      sharedSegmentCount, copiedBytes, totalBytes, elapsedMilliseconds.
      """)
  @OptionGroup var store: StoreOptions
  @Argument(help: "The backup's directory.", completion: .directory) var target: String
  @Flag(help: "As one JSON object.") var json = false

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
        + "\(Units.bytes(report.totalBytes)); \(report.keptSegmentCount) were there, "
        + "\(report.sharedSegmentCount) shared, \(copied) copied "
        + "(\(Units.bytes(report.copiedBytes)))")
  }
}
