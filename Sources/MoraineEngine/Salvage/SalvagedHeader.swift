import MoraineFormat

/// The fields of a segment's header that are needed to read the records. They can often be found
/// where the header is damaged.
struct SalvagedHeader: Sendable {
  let seed: Checksum
  /// Offset of the first record; the lowest possible offset when the header is damaged.
  let firstOffset: Int
  /// Offset of the first record as the header states it, if that offset is possible.
  let claimedOffset: Int?
  /// Nil when the dictionary cannot be recovered.
  let dictionary: [UInt8]?
  /// Nil when the header is damaged beyond repair.
  let header: SegmentHeader?
  /// Whether the header is undamaged.
  let isComplete: Bool

  /// - Parameter dictionaries: the dictionaries of other segments: compaction passes a dictionary
  ///   on.
  /// - Returns: nil when the header is damaged and cannot be derived from the records.
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
    let rest = source.bytes.dropFirst(SegmentHeader.fixedLength)
    dictionary = dictionaries.first { rest.starts(with: $0) }
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

  /// Repairs a header with a single wrong byte. The first record or the footer must confirm the
  /// result.
  private static func repaired(_ bytes: [UInt8], _ plan: SalvageWork.Plan) -> SegmentHeader? {
    let header = bytes.withUnsafeBytes { SegmentHeader(repairing: $0) }
    guard let header, header.number == plan.number else { return nil }
    let search = SeedSearch(bytes, plan)
    let places = [header.headerLength, search.end - SegmentFooter.recordLength]
    return places.contains { search.checksumMatches(at: $0, header.checksumSeed) } ? header : nil
  }
}
