import Moraine

/// What was salvaged and what was not, for eyes and as JSON.
struct SalvageText {
  let report: SalvageReport

  func lines(into path: String) -> String {
    let keys = Units.number(UInt64(report.count))
    var lines = [
      "\(Text.printable(path.utf8)): \(keys) keys, from \(Units.number(report.recordCount)) operations in "
        + "\(report.segmentCount) segments, \(Units.bytes(report.readBytes)) read."
    ]
    for name in report.segmentsWithoutHeader {
      lines.append("The header of \(name) is damaged; its records were found without it.")
    }
    if !report.ignoredFiles.isEmpty {
      let names = report.ignoredFiles.joined(separator: ", ")
      lines.append("Not read, because they are no segments of this store, or not listed: \(names).")
    }
    if !report.torn.isEmpty {
      lines.append("Torn, and promised to nobody; opening would have cut it off too:")
      lines += report.torn.flatMap { describe($0) }
    }
    guard !report.losses.isEmpty else {
      return (lines + ["Nothing is lost."]).joined(separator: "\n")
    }
    lines.append("Lost; older values of these keys, or removed ones, may be back:")
    lines += report.losses.flatMap { describe($0) }
    return lines.joined(separator: "\n")
  }

  /// What a salvage would not bring back, before one is tried.
  var preview: [String] {
    guard !report.losses.isEmpty else { return [] }
    let count = Units.number(report.recordCount)
    return ["A salvage would bring back \(count) operations, and lose:"]
      + report.losses.flatMap { describe($0, isPreview: true) }
  }

  private func describe(_ loss: SalvageLoss, isPreview: Bool = false) -> [String] {
    var text = "  \(loss.file)"
    if loss.lengthBytes > 0 {
      text += ", \(Units.number(loss.lengthBytes)) bytes at byte \(loss.offset)"
    }
    text += ": \(loss.reason)"
    switch loss.recordCount {
    case 0?: text += "; nothing that was stored"
    case 1?: text += "; one operation"
    case let count?: text += "; \(Units.number(count)) operations"
    case nil: break
    }
    if loss.kind != .manifest {
      text += ", behind sequence \(loss.after)"
      if let before = loss.before { text += " and before \(before)" }
    }
    if loss.breaksBatch { text += "; others of its batch are there" }
    return [text]
      + loss.keys.map { key in
        let name = key.key.bytes.isEmpty ? "the empty key" : Text.printable(key.key.bytes)
        var line = "    sequence \(key.sequence): \(name)"
        if !key.keyspace.isEmpty { line += " in keyspace \(Text.printable(key.keyspace.utf8))" }
        if !key.isProven { line += " (as the damaged record names it)" }
        if isPreview { return line }
        return line + (key.hasValue ? "; there is another value of it" : "; it is not there")
      }
  }

  var json: String {
    let names = { (list: [String]) in list.map { Text.quoted($0) }.joined(separator: ",") }
    return "{\"isComplete\":\(report.isComplete),\"count\":\(report.count),"
      + "\"recordCount\":\(report.recordCount),\"segmentCount\":\(report.segmentCount),"
      + "\"readBytes\":\(report.readBytes),"
      + "\"losses\":[\(report.losses.map { json($0) }.joined(separator: ","))],"
      + "\"torn\":[\(report.torn.map { json($0) }.joined(separator: ","))],"
      + "\"segmentsWithoutHeader\":[\(names(report.segmentsWithoutHeader))],"
      + "\"ignoredFiles\":[\(names(report.ignoredFiles))],"
      + "\"elapsedMilliseconds\":\(report.elapsedNanoseconds / 1_000_000)}"
  }

  private func json(_ loss: SalvageLoss) -> String {
    let count = loss.recordCount.map { "\($0)" } ?? "null"
    let before = loss.before.map { "\($0)" } ?? "null"
    let keys = loss.keys.map { key in
      "{\"keyspace\":\(Text.quoted(key.keyspace)),\(Text.member("key", key.key.bytes)),"
        + "\"sequence\":\(key.sequence),\"isProven\":\(key.isProven),\"hasValue\":\(key.hasValue)}"
    }
    return "{\"kind\":\(Text.quoted(loss.kind.rawValue)),\"file\":\(Text.quoted(loss.file)),"
      + "\"offset\":\(loss.offset),\"lengthBytes\":\(loss.lengthBytes),"
      + "\"reason\":\(Text.quoted(loss.reason)),\"recordCount\":\(count),"
      + "\"after\":\(loss.after),\"before\":\(before),\"breaksBatch\":\(loss.breaksBatch),"
      + "\"keys\":[\(keys.joined(separator: ","))]}"
  }
}
