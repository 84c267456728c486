import MoraineStorage

/// How fast compaction goes. Pure, but for the clock: the same figures, the same pauses.
///
/// While nobody writes, as fast as it can. Against writers it reads twice what they append: cleaning
/// at the default limit reads 1.72 bytes for each byte appended (see ``CompactionPolicy``), so that
/// is enough, and leaves the disk to them otherwise. When it is behind, it does not pause.
struct CompactionPacer {
  private static let leastBytesPerSecond = 32.0 * 1_048_576
  private static let quietBytesPerSecond = 1_048_576.0
  private static let longestPause: UInt64 = 100_000_000

  private let limitBytesPerSecond: Double?
  private let isUrgent: Bool
  private var last: (nanoseconds: UInt64, appendedBytes: UInt64)?

  init(policy: CompactionPolicy, isUrgent: Bool) {
    limitBytesPerSecond = policy.rateLimitBytesPerSecond.map { Double(max(1, $0)) }
    self.isUrgent = isUrgent
  }

  /// How long to pause after so many bytes were read, in nanoseconds.
  mutating func pause(
    afterReading bytes: Int, appendedBytes: UInt64, isBehind: Bool,
    now: UInt64 = Machine.monotonicNanoseconds()
  ) -> UInt64 {
    defer { last = (now, appendedBytes) }
    guard let last else { return 0 }
    let elapsed = Double(max(1, now - last.nanoseconds))
    let appended = Double(appendedBytes - last.appendedBytes) / elapsed * 1e9
    guard let rate = rate(appendedPerSecond: appended, isBehind: isBehind) else { return 0 }
    let wanted = Double(bytes) / rate * 1e9
    return wanted <= elapsed ? 0 : min(Self.longestPause, UInt64(wanted - elapsed))
  }

  private func rate(appendedPerSecond: Double, isBehind: Bool) -> Double? {
    if let limitBytesPerSecond { return limitBytesPerSecond }
    if isUrgent || isBehind || appendedPerSecond < Self.quietBytesPerSecond { return nil }
    return max(Self.leastBytesPerSecond, 2 * appendedPerSecond)
  }
}
