import MoraineFormat

/// What reading a segment's records needs of its header, found also where the header is damaged.
struct SalvagedHeader: Sendable {
  let seed: Checksum
  /// Where records begin; where they may begin, when the header is damaged.
  let firstOffset: Int
  /// Where it says that they begin, if that can be.
  let claimedOffset: Int?
  /// Nil where it is not known to be what was written.
  let dictionary: [UInt8]?
  /// Nil where it is damaged.
  let header: SegmentHeader?
  /// Whether it is as it was written.
  let isComplete: Bool

  /// - Parameter dictionaries: those of other segments: compaction hands one on.
  /// - Returns: nil when it is damaged, and its records do not prove what it said.
  /// - Throws: `.newerFormat`.
  init?(
    _ source: SalvageBytes, _ plan: SalvageWork.Plan, dictionaries: Set<[UInt8]>
  ) throws(StoreError) {
    let whole = try Self.decode(source.bytes, plan.name)
    if let header = whole ?? Self.repaired(source.bytes, plan) {
      guard !header.flags.contains(.encrypted) else {
        throw StoreError(
          .newerFormat,
          "the segment is encrypted, which this version cannot read; update this program",
          file: plan.name)
      }
      seed = header.checksumSeed
      firstOffset = header.headerLength
      claimedOffset = firstOffset
      dictionary = header.dictionary
      self.header = header
      isComplete = whole != nil
      return
    }
    let search = SeedSearch(source.bytes, plan)
    guard let seed = search.seed() else { return nil }
    self.seed = seed
    firstOffset = SegmentHeader.fixedLength
    claimedOffset = search.claimedOffset
    header = nil
    isComplete = false
    let behind = source.bytes.dropFirst(SegmentHeader.fixedLength)
    dictionary = dictionaries.first { behind.starts(with: $0) }
  }

  private static func decode(
    _ bytes: [UInt8], _ name: String
  ) throws(StoreError) -> SegmentHeader? {
    try bytes.withBytes { (raw) throws(StoreError) -> SegmentHeader? in
      do throws(FormatError) {
        return try SegmentHeader(decoding: raw)
      } catch {
        guard error.kind == .newer else { return nil }
        throw StoreError(error, file: name)
      }
    }
  }

  /// One with a single wrong byte, if its first record or its footer agrees.
  private static func repaired(_ bytes: [UInt8], _ plan: SalvageWork.Plan) -> SegmentHeader? {
    let header = bytes.withUnsafeBytes { SegmentHeader(repairing: $0) }
    guard let header, header.number == plan.number else { return nil }
    let search = SeedSearch(bytes, plan)
    let places = [header.headerLength, search.end - SegmentFooter.recordLength]
    return places.contains { search.checksumMatches(at: $0, header.checksumSeed) } ? header : nil
  }
}
