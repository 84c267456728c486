import Moraine

/// A table with a row for each segment: its length, its live bytes, its records.
enum SegmentList {
  static func text(_ segments: [SegmentStatistics]) -> String {
    let head = ["segment", "bytes", "live", "records", "live share", ""]
    let rows = segments.map { segment in
      [
        "\(segment.number)", Units.number(segment.lengthBytes), Units.number(segment.liveBytes),
        Units.number(segment.recordCount), Units.ratio(segment.liveRatio),
        kind(segment),
      ]
    }
    let widths = head.indices.map { column in
      ([head] + rows).map { $0[column].count }.max() ?? 0
    }
    return ([head] + rows).map { row in
      let cells = zip(row, widths).map { cell, width in
        String(repeating: " ", count: width - cell.count) + cell
      }
      return cells.joined(separator: "  ")
    }.joined(separator: "\n")
  }

  /// Returns what a segment is; empty for one that was only filled.
  static func kind(_ segment: SegmentStatistics) -> String {
    if segment.isClustered { return "compacted in key order" }
    return segment.isCompacted ? "compacted" : segment.isSealed ? "" : "open"
  }

  static func json(_ segments: [SegmentStatistics]) -> String {
    let objects: [JSONObject] = segments.map { segment in
      [
        "number": segment.number, "lengthBytes": segment.lengthBytes,
        "liveBytes": segment.liveBytes, "recordCount": segment.recordCount,
        "isSealed": segment.isSealed, "isCompacted": segment.isCompacted,
        "isClustered": segment.isClustered,
      ]
    }
    return objects.json
  }
}
