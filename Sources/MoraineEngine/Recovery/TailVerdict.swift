import MoraineFormat

/// The one verdict on the end of a segment that accepts records, or accepted them when its writer
/// died: a torn write, which recovery cuts off, or lost data, which it reports.
struct TailVerdict {
  /// Offset after the last whole unit.
  let end: Int
  /// Number of bytes after ``end`` that were written: parts of units that are not whole.
  let tornBytes: Int

  /// Accepts a place without a record as the end of a torn log, unless a mark or the manifest
  /// promises more.
  ///
  /// - Parameters:
  ///   - result: the result of replaying the segment.
  ///   - scanner: a scanner of the segment's whole file.
  ///   - watermark: the offset up to which the manifest says that the segment is durable; 0 when it
  ///     does not say.
  /// - Throws: `.corrupted` when durable records are missing.
  init(
    _ result: ReplayResult, _ scanner: SegmentScanner, name: String, watermark: UInt64
  ) throws(StoreError) {
    end = result.validEnd
    var promised = max(result.promise, watermark)
    if !result.hasFooter { promised = max(promised, try scanner.farthestPromise(from: end)) }
    guard promised <= UInt64(end) else {
      let stop = result.stop ?? (end, "the file ends here")
      throw .corrupted(
        "\(stop.reason), but the log confirms that \(promised) bytes were durable", name,
        at: stop.offset)
    }
    tornBytes = result.hasFooter ? 0 : max(0, try scanner.lastWritten(from: end) - end)
  }
}

extension Manifest {
  /// Returns the offset up to which the manifest says that an open segment is durable; 0 when it
  /// does not say.
  func watermark(of number: SegmentNumber) -> UInt64 {
    watermarkSegment == number.rawValue ? watermarkOffset : 0
  }
}
