import MoraineFormat

extension Configuration {
  /// More than any log has: a checkpoint floor so high means that none is ever written.
  private static let highestCheckpointFloorBytes = 1 << 50

  /// What the store works with: every figure brought into the range that its comment names.
  package func bounded() -> Configuration {
    var result = self
    result.segmentSizeBytes = segmentSizeBytes.clamped(to: Limits.segmentSizeBytes)
    result.checkpointFloorBytes =
      checkpointFloorBytes.clamped(to: 0...Self.highestCheckpointFloorBytes)
    result.compaction = compaction.bounded()
    if isReadOnly { result.createIfMissing = false }
    return result
  }
}

extension CompactionPolicy {
  private static let spaceAmplifications = 1.1...1_000_000
  private static let liveRatios = 0.0...1.0

  /// What is not a number says nothing; the default holds then.
  fileprivate func bounded() -> CompactionPolicy {
    let usual = CompactionPolicy()
    var result = self
    result.spaceAmplificationLimit =
      spaceAmplificationLimit.isNaN
      ? usual.spaceAmplificationLimit
      : spaceAmplificationLimit.clamped(to: Self.spaceAmplifications)
    result.liveRatioLimit =
      liveRatioLimit.isNaN ? usual.liveRatioLimit : liveRatioLimit.clamped(to: Self.liveRatios)
    result.rateLimitBytesPerSecond = rateLimitBytesPerSecond.map { max(1, $0) }
    return result
  }
}

extension Comparable {
  fileprivate func clamped(to range: ClosedRange<Self>) -> Self {
    min(max(self, range.lowerBound), range.upperBound)
  }
}

extension Configuration {
  /// Whether this process alone changes the store's directory while the store is open.
  var isAlone: Bool { sharing == .exclusive && !isReadOnly }
}
