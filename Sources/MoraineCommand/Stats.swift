import ArgumentParser
import Moraine

struct Stats: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints a store's figures.",
    discussion: """
      With --json one object: count, segmentCount, diskBytes, liveBytes,
      indexBytes, lastSequence, durableSequence, syncCount, digest, isPoisoned,
      appendedBytes, compactionBytes, checkpointBytes, compactionCount,
      spaceAmplification, writeAmplification, expiredCount, the keys among count that
      will be deleted, and keyspaces, as the command keyspaces prints them; with
      --segments also segments, an array of number, lengthBytes, liveBytes,
      recordCount, isSealed, isCompacted, isClustered.
      Written bytes are counted since the store was opened. This command writes
      nothing, so writeAmplification is null here; ask the program that writes, as
      drive's stats command does.

        moraine stats users.moraine --json | jq .count
      """)
  @OptionGroup var store: StoreOptions
  @Flag(help: "Print one JSON object.") var json = false
  @Flag(help: "Print each segment too, with its live share.") var segments = false

  func run() async throws {
    let (statistics, expired, report, list, keyspaces) = try await store.reading { store in
      let statistics = try await store.statistics()
      return (
        statistics, try await store.expiredCount(of: statistics), await store.recoveryReport,
        try await store.segmentStatistics(), try await store.keyspaceStatistics()
      )
    }
    if json {
      var object =
        statistics.json.dropLast() + ",\"expiredCount\":\(expired),\"keyspaces\":"
        + KeyspaceList.json(keyspaces)
      if segments { object += ",\"segments\":\(SegmentList.json(list))" }
      return try Output.line(object + "}")
    }
    try Output.line(Self.table(statistics, expired, report))
    if keyspaces.count > 1 || keyspaces.contains(where: \.isOrdered) {
      try Output.line("\n" + KeyspaceList.text(keyspaces))
    }
    if segments { try Output.line("\n" + SegmentList.text(list)) }
  }

  private static func table(
    _ statistics: Store.Statistics, _ expired: Int, _ report: RecoveryReport
  ) -> String {
    let (disk, live) = (statistics.diskBytes, statistics.liveBytes)
    let share = disk > 0 ? ", \(live * 100 / disk)% of it" : ""
    var rows = [
      (
        "keys",
        Units.number(UInt64(statistics.count - expired))
          + (expired > 0 ? ", and \(Units.number(UInt64(expired))) that have expired" : "")
      ),
      ("segments", Units.number(UInt64(statistics.segmentCount))),
      ("on disk", "\(Units.bytes(disk)) (\(Units.number(disk)) bytes)"),
      ("live", "\(Units.bytes(live)) (\(Units.number(live)) bytes\(share))"),
      ("amplification", "\(Units.ratio(statistics.spaceAmplification)) bytes per live byte"),
      ("index", "\(Units.bytes(UInt64(statistics.indexBytes))) of memory"),
      ("last sequence", "\(statistics.lastSequence)"),
      ("digest", "\(statistics.digest)"),
      ("last closed", report.wasClean ? "in order" : "not in order; the next writer repairs"),
    ]
    if report.tornBytes > 0 { rows.append(("torn write", "\(report.tornBytes) bytes to be cut")) }
    if !report.foreignFiles.isEmpty {
      let names = report.foreignFiles.map { Text.printable($0.utf8) }
      rows.append(("not the store's", names.joined(separator: ", ")))
    }
    let width = rows.map(\.0.count).max() ?? 0
    return rows.map { name, value in
      name + String(repeating: " ", count: width + 2 - name.count) + value
    }.joined(separator: "\n")
  }
}
