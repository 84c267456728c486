import Moraine
import MoraineFormat

/// The findings of `doctor` about a store, as text.
struct Examination {
  private static let garbageWorthBytes: UInt64 = 8 << 20
  private static let amplificationWorth = 2.0

  var problems: [StoreError]
  /// Nil if the store could not be opened.
  var statistics: Store.Statistics?
  /// The entries that have expired and are still in the log; 0 if the store is not sound.
  var expiredCount = 0
  var recovery: RecoveryReport?
  var segments: [SegmentStatistics] = []
  /// Nil if the store is not sound.
  var figures: KeyspaceFigures?
  /// Nil if the manifest could not be read.
  var manifest: Manifest?
  /// The archive, if the user named one.
  var archive: ArchiveComparison?
  /// The report that a salvage of the damaged store would have.
  var survey: SalvageReport?

  func text(_ directory: String) -> String {
    var lines = [health]
    lines += problems.map { "  \($0)" }
    if let recovery { lines += closing(recovery) }
    if let statistics { lines += size(statistics) }
    if let figures, figures.areWorthShowing { lines += ["Keyspaces:"] + figures.lines }
    if let sentence = manifest?.archiveSentence { lines.append(sentence) }
    if let archive { lines += archive.lines(manifest, last: statistics?.lastSequence) }
    if let recovery { lines += surroundings(recovery) }
    if let survey { lines += SalvageText(report: survey).preview }
    let advice = advice(directory)
    lines.append(advice.isEmpty ? "Nothing to do." : "What to do:")
    return (lines + advice.map { "  - \($0)" }).joined(separator: "\n")
  }

  private var health: String {
    if problems.isEmpty {
      return recovery?.checkpointProblem == nil
        ? "Sound: every byte was read, and every checksum matches."
        : "Sound: every byte of the log was read, and every checksum matches."
    }
    if problems.allSatisfy({ $0.code != .corrupted }) {
      return "The store could not be read completely; it is not known whether it is damaged:"
    }
    if problems.allSatisfy(\.isOfIndexCheckpoint) {
      return "No data is damaged. The index in the *.index files does not fit the log:"
    }
    if problems.allSatisfy(\.isOfRepositoryIndex) {
      return "No model is damaged. Indexes of a repository do not fit its models:"
    }
    return problems.count == 1
      ? "Damaged in one place:"
      : "Damaged in \(problems.count) places:"
  }

  private func closing(_ recovery: RecoveryReport) -> [String] {
    if recovery.wasClean { return ["The store was closed in order."] }
    let torn =
      recovery.tornBytes == 0
      ? "No write was torn"
      : "A write of \(Units.number(recovery.tornBytes)) bytes was torn"
        + (recovery.tornSegment.map { " in segment \($0)" } ?? "")
        + (recovery.tornOffset.map { " at byte \($0)" } ?? "")
        + "; it was never acknowledged as durable"
    return [
      "The store was not closed in order: its program was killed or runs, or the power failed.",
      "  \(torn). The next opening for writing repairs this automatically.",
    ]
  }

  private func size(_ statistics: Store.Statistics) -> [String] {
    let (disk, live) = (statistics.diskBytes, statistics.liveBytes)
    let compacted = segments.count { $0.isCompacted }
    var lines = [
      Units.counted(statistics.count - expiredCount, "key") + " in "
        + Units.counted(statistics.segmentCount, "segment")
        + (compacted > 0 ? ", \(compacted) of them compacted" : "") + ".",
      "\(Units.bytes(disk)) on disk, \(Units.bytes(live)) of it live: "
        + "\(Units.ratio(statistics.spaceAmplification)) bytes per live byte.",
    ]
    if expiredCount > 0 {
      lines.append(
        "  \(Units.counted(expiredCount, "key")) more will be deleted: "
          + (expiredCount == 1 ? "its entry has expired." : "their entries have expired."))
    }
    if disk > live {
      lines.append(
        "  \(Units.bytes(disk - live)) is garbage: overwritten and removed records, and marks.")
    }
    if segments.count > 1 {
      let shares = segments.map(\.liveRatio)
      lines.append("  \(TextBar.columns(shares, width: 64))  live share of each segment")
    }
    return lines
  }

  private func surroundings(_ recovery: RecoveryReport) -> [String] {
    var lines: [String] = []
    if let problem = recovery.checkpointProblem {
      lines.append("The index checkpoint could not be used; the log was read instead: \(problem)")
    } else if !recovery.usedCheckpoint, recovery.replayedBytes > 64 << 20 {
      lines.append(
        "The store has no index checkpoint: opening read \(Units.bytes(recovery.replayedBytes)).")
    }
    if !recovery.unlistedFiles.isEmpty {
      lines.append(
        "Segments that the manifest does not list; opening for writing removes them: "
          + recovery.unlistedFiles.joined(separator: ", ") + ".")
    }
    if !recovery.foreignFiles.isEmpty {
      lines.append(
        "Files that do not belong to the store: "
          + recovery.foreignFiles.map { Text.printable($0.utf8) }.joined(separator: ", ") + ".")
    }
    return lines
  }

  private func advice(_ directory: String) -> [String] {
    let path = Text.shellQuoted(directory)
    var advice: [String] = []
    if problems.contains(where: \.isDamageOfTheLog) {
      advice.append("Copy the directory first, and check the disk that holds it.")
      advice.append("With a backup: moraine restore BACKUP NEW")
      advice.append("Without a backup: moraine doctor \(path) --salvage NEW")
    } else if problems.contains(where: { $0.code != .corrupted }) {
      advice.append("Check the disk, and run moraine doctor \(path) again.")
    } else {
      advice += indexAdvice
    }
    if let statistics, problems.isEmpty, mayCompact {
      let garbage = statistics.diskBytes - min(statistics.liveBytes, statistics.diskBytes)
      if statistics.spaceAmplification > Self.amplificationWorth, garbage > Self.garbageWorthBytes {
        advice.append("To free \(Units.bytes(garbage)) now: moraine compact \(path)")
      }
    }
    if let archive {
      let isIntact = problems.allSatisfy { $0.isOfIndexCheckpoint || $0.isOfRepositoryIndex }
      let last = isIntact ? statistics?.lastSequence : nil
      advice += archive.advice(path, manifest, last: last)
    }
    if recovery?.checkpointProblem != nil {
      advice.append(
        "The checkpoint needs no repair: the store reads the log instead. A later checkpoint "
          + "replaces it; to remove it now, remove the *.index files while no program runs.")
    }
    return advice
  }

  /// Whether the store is neither a backup nor a follower's copy, which no compaction may change.
  private var mayCompact: Bool { manifest?.isBackup != true && manifest?.following == nil }

  /// What to do about indexes that do not fit an intact log.
  private var indexAdvice: [String] {
    var advice: [String] = []
    if problems.contains(where: \.isOfIndexCheckpoint) {
      advice.append(
        "Remove the *.index files while no program has the store open: the next opening makes "
          + "the index from the log.")
    }
    if problems.contains(where: \.isOfRepositoryIndex) {
      advice.append(
        "In a program that opens the repository without indexes, call removeIndex(named:) for each "
          + "of its indexes (moraine indexes lists them), and then buildIndexes(), which waits until "
          + "they are gone.")
      advice.append(
        "Then open the repository with its indexes: that makes them from the models.")
    }
    return advice
  }

  /// Returns the problems that make a store unsound. A checkpoint with damaged pages is none: it is
  /// the same as a checkpoint that the opening found damaged, and the log was read instead.
  static func problems(of report: VerificationReport, _ recovery: RecoveryReport) -> [StoreError] {
    let unused = recovery.checkpointProblem?.description
    return report.problems.filter { !$0.isOfIndexCheckpoint || $0.description != unused }
  }

  func json(directory: String) -> String {
    var object: JSONObject = ["isSound": problems.isEmpty]
    if let recovery { object.add("wasClean", recovery.wasClean) }
    if let statistics {
      object.add("count", statistics.count - expiredCount)
      object.add("expiredCount", expiredCount)
      object.add("segmentCount", statistics.segmentCount)
      object.add("diskBytes", statistics.diskBytes)
      object.add("liveBytes", statistics.liveBytes)
      object.add("spaceAmplification", statistics.spaceAmplification)
    }
    if let figures { object.add("keyspaces", KeyspaceList.objects(figures.keyspaces)) }
    if let archive {
      object.add("archive", archive.object(manifest, last: statistics?.lastSequence))
    }
    object.add("problems", problems)
    if let problem = recovery?.checkpointProblem { object.add("checkpointProblem", problem) }
    if let survey { object.add("salvage", SalvageText(report: survey).previewObject) }
    object.add("advice", advice(directory))
    return object.json
  }
}

extension SalvageReport {
  /// Returns the error that ended an opening, and a problem for each other damaged place that this
  /// survey found.
  func problems(after error: StoreError) -> [StoreError] {
    let headers = segmentsWithoutHeader.filter { $0 != error.file }.map {
      StoreError(.corrupted, "the segment's header is damaged", file: $0, offset: 0)
    }
    return [error] + headers + losses.filter { !$0.contains(error) }.map(\.problem)
  }
}

extension SalvageLoss {
  /// Whether a whole file is lost, and not a place in it.
  private var isOfAFile: Bool { kind == .manifest || kind == .segment }

  /// Whether an error of the opening is about this loss.
  fileprivate func contains(_ error: StoreError) -> Bool {
    guard error.file == file else { return false }
    guard !isOfAFile, let place = error.offset, place != offset else { return true }
    return place > offset && place - offset < lengthBytes
  }

  fileprivate var problem: StoreError {
    isOfAFile
      ? StoreError(.corrupted, reason, file: file)
      : StoreError(
        .corrupted, "\(Units.number(lengthBytes)) bytes are lost: \(reason)", file: file,
        offset: offset)
  }
}

extension StoreError {
  /// Whether the log is intact, and only the index that was made from it is wrong.
  var isOfIndexCheckpoint: Bool { code == .corrupted && file?.hasSuffix(".index") == true }

  /// Whether all records are intact, and only an index of a repository does not fit its models.
  /// Such an error names no file. Where the catalog of the indexes cannot be read, no index can be
  /// removed, and the error asks for a backup.
  var isOfRepositoryIndex: Bool {
    code == .corrupted && file == nil && !message.hasSuffix("; restore the store from a backup")
  }

  /// Whether records may be lost.
  var isDamageOfTheLog: Bool {
    code == .corrupted && !isOfIndexCheckpoint && !isOfRepositoryIndex
  }
}
