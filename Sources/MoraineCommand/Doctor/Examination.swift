import Moraine

/// What was found of a store, in words.
struct Examination {
  private static let garbageWorthBytes: UInt64 = 8 << 20
  private static let amplificationWorth = 2.0

  var problems: [StoreError]
  /// Nil when the store could not be opened.
  var statistics: Statistics?
  var recovery: RecoveryReport?
  var segments: [SegmentStatistics] = []
  /// What a salvage of a damaged store would find.
  var survey: SalvageReport?

  func text(_ directory: String) -> String {
    var lines = [health]
    lines += problems.map { "  \($0)" }
    if let recovery { lines += closing(recovery) }
    if let statistics { lines += size(statistics) }
    if let recovery { lines += surroundings(recovery) }
    if let survey { lines += SalvageText(report: survey).preview }
    let advice = advice(directory)
    lines.append(advice.isEmpty ? "Nothing to do." : "What to do:")
    return (lines + advice.map { "  - \($0)" }).joined(separator: "\n")
  }

  private var health: String {
    if problems.isEmpty {
      return "Sound: every byte was read, and is what was written."
    }
    if problems.allSatisfy({ $0.code != .corrupted }) {
      return "It could not be read as a whole; that is no proof of damage:"
    }
    return problems.count == 1
      ? "Damaged in one place that was found:"
      : "Damaged in \(problems.count) places that were found:"
  }

  private func closing(_ recovery: RecoveryReport) -> [String] {
    if recovery.wasClean { return ["It was closed in order."] }
    let torn =
      recovery.tornBytes == 0
      ? "nothing of its end was torn"
      : "a write of \(Units.number(recovery.tornBytes)) bytes was torn"
        + (recovery.tornSegment.map { " in segment \($0)" } ?? "")
        + (recovery.tornOffset.map { " at byte \($0)" } ?? "")
        + ", which nobody was told is durable"
    return [
      "It was not closed in order: its program was killed, or the power failed, or it is running.",
      "  \(torn). The next program that opens it for writing puts that right by itself.",
    ]
  }

  private func size(_ statistics: Statistics) -> [String] {
    let (disk, live) = (statistics.diskBytes, statistics.liveBytes)
    let compacted = segments.count { $0.isCompacted }
    var lines = [
      Units.counted(statistics.count, "key") + " in "
        + Units.counted(statistics.segmentCount, "segment")
        + (compacted > 0 ? ", \(compacted) of them compacted" : "") + ".",
      "\(Units.bytes(disk)) on disk, \(Units.bytes(live)) of it live: "
        + "\(Units.ratio(statistics.spaceAmplification)) bytes a live byte.",
    ]
    if disk > live {
      lines.append(
        "  \(Units.bytes(disk - live)) is garbage: what was overwritten or removed, and marks.")
    }
    return lines
  }

  private func surroundings(_ recovery: RecoveryReport) -> [String] {
    var lines: [String] = []
    if let problem = recovery.checkpointProblem {
      lines.append("Its index checkpoint could not be used; opening read the log: \(problem)")
    } else if !recovery.usedCheckpoint, recovery.replayedBytes > 64 << 20 {
      lines.append(
        "It has no index checkpoint: opening read \(Units.bytes(recovery.replayedBytes)).")
    }
    if !recovery.unlistedFiles.isEmpty {
      lines.append(
        "Segments that the manifest does not list, and that opening for writing removes: "
          + recovery.unlistedFiles.joined(separator: ", ") + ".")
    }
    if !recovery.foreignFiles.isEmpty {
      lines.append(
        "Not the store's: "
          + recovery.foreignFiles.map { Text.printable($0.utf8) }.joined(separator: ", ") + ".")
    }
    return lines
  }

  private func advice(_ directory: String) -> [String] {
    let path = Text.shellQuoted(directory)
    var advice: [String] = []
    if problems.contains(where: { $0.code == .corrupted }) {
      advice.append("Copy the directory before anything else, and look after the disk under it.")
      advice.append("With a backup: moraine restore BACKUP NEW")
      advice.append("Without: moraine doctor \(path) --salvage NEW")
    } else if !problems.isEmpty {
      advice.append("Look after the disk, and run moraine doctor \(path) again.")
    }
    if let statistics, problems.isEmpty {
      let garbage = statistics.diskBytes - min(statistics.liveBytes, statistics.diskBytes)
      if statistics.spaceAmplification > Self.amplificationWorth, garbage > Self.garbageWorthBytes {
        advice.append("To have \(Units.bytes(garbage)) back at once: moraine compact \(path)")
      }
    }
    if recovery?.checkpointProblem != nil {
      advice.append("Nothing about the checkpoint: the next orderly closing writes a new one.")
    }
    return advice
  }

  func json(directory: String) -> String {
    var object: JSONObject = ["isSound": problems.isEmpty]
    if let recovery { object.add("wasClean", recovery.wasClean) }
    if let statistics {
      object.add("count", statistics.count)
      object.add("segmentCount", statistics.segmentCount)
      object.add("diskBytes", statistics.diskBytes)
      object.add("liveBytes", statistics.liveBytes)
      object.add("spaceAmplification", statistics.spaceAmplification)
    }
    object.add("problems", problems)
    if let survey { object.add("salvage", SalvageText(report: survey).previewObject) }
    object.add("advice", advice(directory))
    return object.json
  }
}
