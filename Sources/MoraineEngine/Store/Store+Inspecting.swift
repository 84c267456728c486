import MoraineFormat
import MoraineStorage
import Synchronization

extension Store {
  /// The store's figures at this moment.
  public var statistics: Statistics {
    var result = Statistics()
    result.durableSequence = durableSequence
    let (syncCount, began) = pipeline.monitor.withLock { ($0.syncCount, $0.syncBeganNanoseconds) }
    result.syncCount = syncCount
    result.syncUnderWayNanoseconds = began.map { Machine.monotonicNanoseconds() - $0 }
    result.poison = pipeline.poison
    result.compactionBytes = compactionBytes
    if engine != nil { describeEngine(in: &result) }
    return result
  }

  private func describeEngine(in result: inout Statistics) {
    result.appendedBytes = engine!.appendedBytes
    result.count = engine!.index.count
    result.indexBytes = engine!.index.byteCount
    result.liveBytes = engine!.liveBytes
    result.lastSequence = SequenceNumber(rawValue: engine!.lastSequence)
    result.digest = engine!.digest
    for slot in engine!.table.order {
      result.segmentCount += 1
      result.diskBytes += UInt64(engine!.table[slot].end)
    }
  }

  /// Reads every byte of the log again and checks it: checksums, values that decompress, the count
  /// and digest of what is live.
  ///
  /// - Throws: `.closed`. What is damaged is in the report.
  /// - Complexity: O(bytes of the store).
  public func verify(
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> VerificationReport {
    try checkOpen()
    var report = VerificationReport()
    guard engine != nil else { return report }
    let total = statistics.diskBytes
    var liveCount = 0
    for slot in engine!.table.order {
      do throws(StoreError) {
        liveCount += try verifySegment(slot, total, &report, progress)
      } catch {
        report.problems.append(error)
      }
    }
    if report.problems.isEmpty, liveCount != engine!.index.count {
      report.problems.append(
        .corrupted("\(liveCount) live records, but \(engine!.index.count) keys", "index", at: 0))
    }
    return report
  }

  private func verifySegment(
    _ slot: Int, _ total: UInt64, _ report: inout VerificationReport,
    _ progress: (@Sendable (Progress) -> Void)?
  ) throws(StoreError) -> Int {
    var cursor = LogCursor(slot: slot)
    var count = 0
    while try cursor.next(&engine!) != nil {
      count += 1
      if count % 4096 == 0 {
        let within = UInt64(cursor.offset ?? 0)
        progress?(Progress(completedBytes: report.checkedBytes + within, totalBytes: total))
      }
    }
    report.recordCount += engine!.table[slot].recordCount
    report.checkedBytes += UInt64(engine!.table[slot].end)
    progress?(Progress(completedBytes: report.checkedBytes, totalBytes: total))
    return count
  }
}
