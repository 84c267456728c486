import Moraine

/// The report of a salvage, as text and as JSON.
struct SalvageText {
  /// The number of keys of each loss that a preview shows.
  private static let previewedKeys = 20

  let report: SalvageReport

  func lines(into path: String) -> String {
    var lines = [
      "\(Text.printable(path.utf8)): \(Units.counted(report.count, "key")), from \(operations) in "
        + "\(Units.counted(report.segmentCount, "segment")), \(Units.bytes(report.readBytes)) read."
    ]
    for name in report.segmentsWithoutHeader {
      lines.append("The header of \(name) is damaged; its records were found without it.")
    }
    if !report.ignoredFiles.isEmpty {
      let names = report.ignoredFiles.joined(separator: ", ")
      lines.append("Not read: files that are no segments of this store, or not listed: \(names).")
    }
    lines += unlisted
    if !report.torn.isEmpty {
      lines.append("Torn writes, never acknowledged; opening the store would also remove them:")
      lines += report.torn.flatMap { describe($0) }
    }
    guard !report.losses.isEmpty else {
      return (lines + ["Nothing is lost."]).joined(separator: "\n")
    }
    lines.append("Lost records; older or removed values of their keys may be back:")
    lines += report.losses.flatMap { describe($0) }
    return lines.joined(separator: "\n")
  }

  private var operations: String {
    Units.counted(Int(clamping: report.recordCount), "operation")
  }

  /// The losses that a salvage would have, reported without a salvage.
  var preview: [String] {
    guard !report.losses.isEmpty else { return unlisted }
    return unlisted + ["A salvage would bring back \(operations), and lose:"]
      + report.losses.flatMap { describe($0, isPreview: true) }
  }

  /// Intact segments that the manifest does not list.
  private var unlisted: [String] {
    report.unlistedSegments.map {
      "\($0.file) is intact, and the manifest does not list it: "
        + Units.counted(Int(clamping: $0.recordCount), "operation")
        + ", sequence \($0.firstSequence) to \($0.lastSequence), not copied."
    }
  }

  private func describe(_ loss: SalvageLoss, isPreview: Bool = false) -> [String] {
    var text = "  \(loss.file)"
    if loss.lengthBytes > 0 {
      text += ", \(Units.number(loss.lengthBytes)) bytes at byte \(loss.offset)"
    }
    text += ": \(loss.reason)"
    switch loss.recordCount {
    case 0?: text += "; no operation"
    case 1?: text += "; one operation"
    case let count?: text += "; \(Units.number(count)) operations"
    case nil: break
    }
    if loss.kind != .manifest {
      text += ", after sequence \(loss.after)"
      if let before = loss.before { text += " and before \(before)" }
    }
    if loss.breaksBatch { text += "; other operations of its batch survive" }
    let shown = isPreview ? loss.keys.prefix(Self.previewedKeys) : loss.keys[...]
    var lines = [text] + shown.map { describe($0, isPreview: isPreview) }
    if shown.count < loss.keys.count {
      let count = Units.number(UInt64(loss.keys.count - shown.count))
      lines.append("    and \(count) more keys; --json lists all of them")
    }
    return lines
  }

  private func describe(_ key: SalvagedKey, isPreview: Bool) -> String {
    if let indexed = IndexLayout.indexedName(of: key.keyspace) {
      let owner = indexed.isEmpty ? "the unnamed keyspace" : Text.printable(indexed.utf8)
      return "    sequence \(key.sequence): part of an index of \(owner); programs build it again"
    }
    let name = key.key.bytes.isEmpty ? "the empty key" : Text.printable(key.key.bytes)
    var line = "    sequence \(key.sequence): \(name)"
    if !key.keyspace.isEmpty { line += " in keyspace \(Text.printable(key.keyspace.utf8))" }
    if !key.isVerified { line += " (as the damaged record names it)" }
    if isPreview { return line }
    return line + (key.hasValue ? "; the new store has another value" : "; not in the new store")
  }
}

extension SalvageText: JSONRepresentable {
  var json: String {
    let object: JSONObject = [
      "isComplete": report.isComplete, "count": report.count, "recordCount": report.recordCount,
      "segmentCount": report.segmentCount, "readBytes": report.readBytes,
      "losses": report.losses.map { member($0) }, "torn": report.torn.map { member($0) },
      "segmentsWithoutHeader": report.segmentsWithoutHeader, "ignoredFiles": report.ignoredFiles,
      "unlistedSegments": unlistedObjects,
      "elapsedMilliseconds": report.elapsedNanoseconds / 1_000_000,
    ]
    return object.json
  }

  /// The records that a salvage would bring back, and its losses. Whether a lost key would have
  /// another value is known only after a salvage.
  var previewObject: JSONObject {
    [
      "recordCount": report.recordCount, "unlistedSegments": unlistedObjects,
      "losses": report.losses.map { member($0, isPreview: true) },
    ]
  }

  private var unlistedObjects: [JSONObject] {
    report.unlistedSegments.map {
      [
        "file": $0.file, "recordCount": $0.recordCount, "firstSequence": $0.firstSequence,
        "lastSequence": $0.lastSequence,
      ]
    }
  }

  private func member(_ loss: SalvageLoss, isPreview: Bool = false) -> JSONObject {
    [
      "kind": loss.kind.rawValue, "file": loss.file, "offset": loss.offset,
      "lengthBytes": loss.lengthBytes, "reason": loss.reason, "recordCount": loss.recordCount,
      "after": loss.after, "before": loss.before, "breaksBatch": loss.breaksBatch,
      "keys": loss.keys.map { member($0, isPreview: isPreview) },
    ]
  }

  private func member(_ key: SalvagedKey, isPreview: Bool) -> JSONObject {
    var object: JSONObject = ["keyspace": key.keyspace]
    object.add("key", bytes: Array(key.key.bytes))
    object.add("sequence", key.sequence)
    object.add("isVerified", key.isVerified)
    if !isPreview { object.add("hasValue", key.hasValue) }
    return object
  }
}
