import Testing

@testable import MoraineEngine

/// How long compaction pauses: by what is being written, and by how far it is behind.
@Suite struct CompactionPacerTests {
  private static let megabyte = 1 << 20

  /// The pause after a chunk of 1 MiB that took 1 ms, with so much appended in that time.
  private func pause(
    _ policy: CompactionPolicy = CompactionPolicy(), appended: UInt64, isBehind: Bool = false,
    isUrgent: Bool = false
  ) -> UInt64 {
    var pacer = CompactionPacer(policy: policy, isUrgent: isUrgent)
    let first = pacer.pause(
      afterReading: Self.megabyte, appendedBytes: 500, isBehind: isBehind, now: 1_000_000)
    #expect(first == 0, "nothing is known yet")
    return pacer.pause(
      afterReading: Self.megabyte, appendedBytes: 500 + appended, isBehind: isBehind, now: 2_000_000
    )
  }

  @Test func itDoesNotPauseWhileNobodyWrites() { #expect(pause(appended: 0) == 0) }

  @Test func itReadsTwiceWhatIsAppended() {
    // 100 KiB in a millisecond: 1 MiB may take 5.12 ms, of which one has passed.
    #expect((4_100_000...4_140_000).contains(pause(appended: 100 << 10)))
    #expect(pause(appended: 1 << 20) == 0, "half as fast as the writer: no pause")
  }

  @Test func itNeverCreeps() {
    // 2 KiB in a millisecond, 2 MB a second: 32 MiB a second is the least.
    #expect((30_000_000...31_000_000).contains(pause(appended: 2 << 10)))
  }

  @Test func behindOrUrgentItDoesNotPause() {
    #expect(pause(appended: 100 << 10, isBehind: true) == 0)
    #expect(pause(appended: 100 << 10, isUrgent: true) == 0)
  }

  @Test func aLimitHoldsAlways() {
    var policy = CompactionPolicy()
    policy.rateLimitBytesPerSecond = 50 << 20
    for isUrgent in [true, false] {
      #expect(
        (18_900_000...19_100_000).contains(
          pause(policy, appended: 0, isBehind: true, isUrgent: isUrgent)))
    }
    policy.rateLimitBytesPerSecond = 0
    #expect(pause(policy, appended: 0) == 100_000_000, "at most a tenth of a second at a time")
  }
}
