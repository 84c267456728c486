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
    precondition(
      outputLimitBytes <= Limits.recordOffsetBytes, "an address cannot hold the end of an output")
    self.pacer = pacer
    self.outputLimitBytes = outputLimitBytes
  }

  /// - Returns: what was done in this step.
  func count(
    _ inputs: ArraySlice<CompactionInput>, _ output: CompactionOutput
  ) -> CompactionReport {
    assert(!inputs.isEmpty, "a step of a compaction rewrote no segment")
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

/// How fast compaction goes. Pure, but for the clock: the same figures, the same pauses.
///
/// While nobody writes, as fast as it can. Against writers it reads twice what they append:
/// cleaning at the default limit reads 1.72 bytes for each byte appended (see
/// ``CompactionPolicy``), so that is enough, and leaves the disk to them otherwise. When it is
/// behind, it does not pause.
struct CompactionPacer {
  private static let leastBytesPerSecond = 32.0 * 1_048_576
  private static let quietBytesPerSecond = 1_048_576.0
  /// Of one sleep: whoever wants compaction to end waits so long at most.
  static let longestPause: UInt64 = 100_000_000
  /// A century; more does not fit into an integer.
  private static let longestDebt = 3e18

  private let limitBytesPerSecond: Double?
  private let isUrgent: Bool
  private var last: (nanoseconds: UInt64, appendedBytes: UInt64)?
  /// Nanoseconds that reading went ahead of the limit, at the last call.
  private var debt = 0.0
  private var lastOfLimit: UInt64?

  init(policy: CompactionPolicy, isUrgent: Bool) {
    limitBytesPerSecond = policy.rateLimitBytesPerSecond.map { Double(max(1, $0)) }
    self.isUrgent = isUrgent
  }

  /// How long to pause after so many bytes were read, in nanoseconds.
  mutating func pause(
    afterReading bytes: Int, appendedBytes: UInt64, isBehind: Bool,
    now: UInt64 = SystemClock.monotonicNanoseconds()
  ) -> UInt64 {
    if limitBytesPerSecond != nil { return pauseOfLimit(afterReading: bytes, now: now) }
    defer { last = (now, appendedBytes) }
    guard let last else { return 0 }
    let elapsed = Double(max(1, now - last.nanoseconds))
    let appended = Double(appendedBytes - last.appendedBytes) / elapsed * 1e9
    guard let rate = rate(appendedPerSecond: appended, isBehind: isBehind) else { return 0 }
    let wanted = Double(bytes) / rate * 1e9
    return wanted <= elapsed ? 0 : min(Self.longestPause, UInt64(wanted - elapsed))
  }

  /// How long to pause so that no more is read than the limit allows; 0 when there is none.
  ///
  /// As long as it takes, and what a pause did not last is made up for by the next: the limit holds
  /// however slow it is, and whatever else takes time.
  mutating func pauseOfLimit(
    afterReading bytes: Int, now: UInt64 = SystemClock.monotonicNanoseconds()
  ) -> UInt64 {
    guard let limitBytesPerSecond else { return 0 }
    assert(bytes >= 0, "a compaction has read less than nothing")
    let elapsed = now - (lastOfLimit ?? now)
    lastOfLimit = now
    debt = max(0, debt - Double(elapsed)) + Double(bytes) / limitBytesPerSecond * 1e9
    return UInt64(min(debt, Self.longestDebt))
  }

  private func rate(appendedPerSecond: Double, isBehind: Bool) -> Double? {
    if isUrgent || isBehind || appendedPerSecond < Self.quietBytesPerSecond { return nil }
    return max(Self.leastBytesPerSecond, 2 * appendedPerSecond)
  }
}
