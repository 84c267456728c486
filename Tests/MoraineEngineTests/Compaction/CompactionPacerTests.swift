import Testing

@testable import MoraineEngine

/// Length of the pauses of compaction: it depends on the rate of writes, and on how far compaction
/// is late.
@Suite struct CompactionPacerTests {
  private static let megabyte = 1 << 20

  /// The pause after a chunk of 1 MiB that took 1 ms, with `appended` bytes appended in that time.
  private func pause(
    _ policy: CompactionPolicy = CompactionPolicy(), appended: UInt64, isOverLimit: Bool = false,
    isUrgent: Bool = false
  ) -> UInt64 {
    var pacer = CompactionPacer(policy: policy, isUrgent: isUrgent)
    let first = pacer.pause(
      afterReading: Self.megabyte, appendedBytes: 500, isOverLimit: isOverLimit, now: 1_000_000)
    #expect(first == 0, "nothing is known yet")
    return pacer.pause(
      afterReading: Self.megabyte, appendedBytes: 500 + appended, isOverLimit: isOverLimit,
      now: 2_000_000
    )
  }

  @Test func compactionDoesNotPauseWithoutWrites() { #expect(pause(appended: 0) == 0) }

  @Test func compactionReadsTwiceTheAppendedBytes() {
    // 100 KiB in a millisecond: 1 MiB may take 5.12 ms, of which one millisecond has passed.
    #expect((4_100_000...4_140_000).contains(pause(appended: 100 << 10)))
    #expect(pause(appended: 1 << 20) == 0, "half as fast as the writer: no pause")
  }

  @Test func compactionKeepsALeastRate() {
    // 2 KiB in a millisecond are 2 MB a second; the least rate is 32 MiB a second.
    #expect((30_000_000...31_000_000).contains(pause(appended: 2 << 10)))
  }

  @Test func laggingOrUrgentCompactionDoesNotPause() {
    #expect(pause(appended: 100 << 10, isOverLimit: true) == 0)
    #expect(pause(appended: 100 << 10, isUrgent: true) == 0)
  }

  @Test func rateLimitAlwaysHolds() {
    var policy = CompactionPolicy()
    for limit in [0, 1 << 10, 1 << 20, 50 << 20] {
      policy.rateLimitBytesPerSecond = limit
      for isUrgent in [true, false] {
        var pacer = CompactionPacer(policy: policy, isUrgent: isUrgent)
        var now: UInt64 = 1_000_000
        for chunk in 0..<100 {
          // Every third pause is too long, every seventh ends early.
          let pause = pacer.pause(
            afterReading: Self.megabyte, appendedBytes: 0, isOverLimit: true, now: now)
          now += pause + (chunk % 3 == 0 ? 1_500_000 : 1_000_000)
          if chunk % 7 == 0 { now -= pause / 2 }
        }
        let last = pacer.pauseOfLimit(afterReading: 0, now: now)
        let seconds = Double(now + last - 1_000_000) / 1e9
        let expected = Double(100 * Self.megabyte) / Double(max(1, limit))
        #expect(seconds >= expected * 0.999 && seconds < expected * 1.2, "limit \(limit)")
      }
    }
  }

  @Test func policyWithoutARateLimitAddsNoPause() {
    var pacer = CompactionPacer(policy: CompactionPolicy(), isUrgent: false)
    #expect(pacer.pauseOfLimit(afterReading: 1 << 40, now: 1) == 0)
    #expect(pacer.pauseOfLimit(afterReading: 1 << 40, now: 2) == 0)
  }
}
