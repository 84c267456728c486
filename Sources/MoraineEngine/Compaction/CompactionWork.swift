import MoraineFormat
import MoraineStorage

/// The thread, the pacer and the report of one compaction. Only the actor uses it.
final class CompactionWork {
  let thread = SerialQueue(.background)
  var pacer: CompactionPacer
  var report = CompactionReport()
  /// The part of the live bytes that was left of segments that were rewritten for the first time.
  private(set) var shrinkage = 1.0
  /// Whether the compaction ended in a pause, because its task was cancelled.
  var isCancelled = false
  /// Whether the last search found no dictionary that helps. The next search then costs less.
  var hasFoundNothing = false

  /// Offset before which every record of an output begins.
  let outputLimitBytes: Int

  init(pacer: CompactionPacer, outputLimitBytes: Int = StoreLimits.recordOffsetBytes) {
    precondition(
      outputLimitBytes <= StoreLimits.recordOffsetBytes,
      "an address cannot hold the end of an output")
    self.pacer = pacer
    self.outputLimitBytes = outputLimitBytes
  }

  /// Whether the steps so far have freed more space than they took.
  var hasFreedSpace: Bool { report.inputBytes > report.outputBytes }

  /// Adds a step to the report.
  ///
  /// - Returns: the report of this step alone.
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

/// Decides how long a compaction pauses. Pure, except for the clock: the same figures lead to the
/// same pauses.
///
/// Without writers, a compaction does not pause. Beside writers it reads two bytes for each byte
/// that they append: compaction at the default limit reads 1.72 bytes for each (see
/// ``CompactionPolicy``), so this suffices, and writers have the rest of the disk's bandwidth. With
/// more garbage than the policy allows, it does not pause.
struct CompactionPacer {
  private static let leastBytesPerSecond = 32.0 * 1_048_576
  private static let quietBytesPerSecond = 1_048_576.0
  /// Length of the longest sleep, in nanoseconds: a caller that ends the compaction waits no
  /// longer.
  static let longestPause: UInt64 = 100_000_000
  /// Length of the longest pause, in nanoseconds: about a century. More does not fit an integer.
  private static let longestDebt = 3e18

  private let limitBytesPerSecond: Double?
  private let isUrgent: Bool
  private var last: (nanoseconds: UInt64, appendedBytes: UInt64)?
  /// Time by which reading was ahead of the limit at the last call, in nanoseconds.
  private var debt = 0.0
  private var lastOfLimit: UInt64?

  init(policy: CompactionPolicy, isUrgent: Bool) {
    limitBytesPerSecond = policy.rateLimitBytesPerSecond.map { Double(max(1, $0)) }
    self.isUrgent = isUrgent
  }

  /// Returns the length of the pause after a number of bytes was read, in nanoseconds.
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

  /// Returns the length of the pause that keeps reading within the limit, in nanoseconds; 0 without
  /// a limit.
  ///
  /// The next pause makes up for a pause that was too short, so the limit holds whatever its value
  /// is, and whatever else takes time.
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
