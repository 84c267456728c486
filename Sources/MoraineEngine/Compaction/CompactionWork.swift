import MoraineFormat
import MoraineStorage

/// What one compaction has, from its beginning to its end.
///
/// Used by the actor alone.
final class CompactionWork {
  let thread = SerialQueue(.background)
  var pacer: CompactionPacer
  var report = CompactionReport()
  /// What part of a segment's live bytes was left when it was rewritten for the first time.
  private(set) var shrinkage = 1.0
  /// Whether it ended in a pause, because its task was cancelled.
  var isCancelled = false
  /// Whether the last search for a dictionary was in vain; the next one then costs less.
  var hasFoundNothing = false

  /// Every record of an output begins before this place.
  let outputLimitBytes: Int

  init(pacer: CompactionPacer, outputLimitBytes: Int = Limits.recordOffsetBytes) {
    self.pacer = pacer
    self.outputLimitBytes = outputLimitBytes
  }

  /// - Returns: what was done in this step.
  func count(
    _ inputs: ArraySlice<CompactionInput>, _ output: CompactionOutput
  ) -> CompactionReport {
    let outputBytes = output.isEmpty ? 0 : output.lengthBytes
    var step = CompactionReport()
    step.inputSegmentCount = inputs.count
    step.inputBytes = inputs.reduce(0) { $0 + UInt64($1.end) }
    step.outputBytes = UInt64(outputBytes)
    report.add(step)
    let new = inputs.reduce(0) { $0 + ($1.isCompacted ? 0 : $1.liveBytes) }
    let old = inputs.reduce(0) { $0 + ($1.isCompacted ? $1.liveBytes : 0) }
    if new > 0 { shrinkage = min(1, max(0.05, Double(outputBytes - old) / Double(new))) }
    return step
  }
}

extension CompactionReport {
  mutating func add(_ step: CompactionReport) {
    inputSegmentCount += step.inputSegmentCount
    inputBytes += step.inputBytes
    outputBytes += step.outputBytes
  }
}
