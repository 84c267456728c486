import MoraineFormat

/// Which values of a compaction's inputs are looked at to find what they have in common: as many as
/// make a good dictionary, spread evenly.
struct DictionarySampling: Sendable {
  private static let bytes = (least: 256 << 10, most: 2 << 20)
  /// Enough to see whether there is anything to be found.
  private static let glanceBytes = (least: 32 << 10, most: 512 << 10)

  /// A record is taken when its mixed sequence number is at most this.
  private let limit: UInt64

  /// - Parameter isGlance: whether little is expected to be found.
  init(liveBytes: Int, isGlance: Bool) {
    let bounds = isGlance ? Self.glanceBytes : Self.bytes
    let wanted = min(bounds.most, max(bounds.least, liveBytes / (isGlance ? 64 : 8)))
    limit = liveBytes <= wanted ? .max : UInt64(Double(wanted) / Double(liveBytes) * 0x1p64)
  }

  func takes(_ header: RecordHeader) -> Bool {
    header.kind == .put && header.rawLength <= ValueRecoder.longestValueBytes
      && StateDigest.mix(header.sequence) <= limit
  }

  /// About as many bytes all values have, if those that were taken have so many.
  func total(_ bytes: Int) -> Int { Int(Double(bytes) * 0x1p64 / (Double(limit) + 1)) }
}
