import MoraineFormat

/// A search for the 32 bits with which all checksums of a segment begin, for a segment whose header
/// is damaged. Each undamaged record yields these bits. Two records that agree are no coincidence.
struct SeedSearch {
  /// Number of consecutive records that must agree on a seed: the first one yields it, two confirm
  /// it.
  private static let agreeingCount = 3

  let bytes: [UInt8]
  let plan: SalvageWork.Plan
  /// Offset at which the records end.
  let end: Int

  init(_ bytes: [UInt8], _ plan: SalvageWork.Plan) {
    self.bytes = bytes
    self.plan = plan
    let last = bytes.lastIndex { $0 != 0 }.map { aligned($0 + 1) } ?? 0
    // A footer ends with zeros, which are part of it.
    end = min(plan.limit ?? aligned(last + 16), bytes.count)
  }

  func seed() -> Checksum? {
    let footer = end - SegmentFooter.recordLength
    let hasFooter = looksLikeFooter(at: footer)
    // A footer at this place is no part of a value: no record follows it.
    let claim = hasFooter ? footerSeed(at: footer) : nil
    if let claim, hasRecord(claim, before: footer) { return claim }
    return row(believed: { place, seed in
      // Values may contain bytes that look like consecutive records with another seed. If there is
      // a footer with another seed, such records count only when they begin where the records of a
      // segment begin, or when they have sequence numbers that the manifest gives the segment.
      !hasFooter || plan.isSealed || place == SegmentHeader.fixedLength || place == claimedOffset
        || checksumMatches(at: footer, seed)
    }) ?? (plan.isSealed ? claim : nil)
  }

  /// Returns the seed of the first consecutive records that are believed.
  private func row(believed: (Int, Checksum) -> Bool) -> Checksum? {
    bytes.withUnsafeBytes { bytes in
      for place in stride(from: SegmentHeader.fixedLength, to: end, by: recordAlignment) {
        if let seed = seed(bytes, at: place), believed(place, seed) { return seed }
      }
      return nil
    }
  }

  /// Offset of the first record as the header states it, if that offset is possible.
  var claimedOffset: Int? {
    bytes.withUnsafeBytes { bytes in
      do throws(FormatError) { return try SegmentHeader.claimedLength(bytes) } catch { return nil }
    }
  }

  func checksumMatches(at place: Int, _ seed: Checksum) -> Bool {
    bytes.withUnsafeBytes { bytes in
      place >= SegmentHeader.fixedLength
        && candidate(bytes, at: place)?.checksumMatches(in: bytes, at: place, seed: seed) ?? false
    }
  }

  private func footerSeed(at place: Int) -> Checksum {
    bytes.withUnsafeBytes { bytes in
      RecordHeader.seed(
        ofRecord: bytes.baseAddress! + place, length: SegmentFooter.recordLength, at: UInt64(place))
    }
  }

  private func hasRecord(_ seed: Checksum, before end: Int) -> Bool {
    let places = stride(from: SegmentHeader.fixedLength, to: end, by: recordAlignment)
    return bytes.withUnsafeBytes { bytes in
      places.contains { place in
        candidate(bytes, at: place)?.checksumMatches(in: bytes, at: place, seed: seed) ?? false
      }
    }
  }

  private func looksLikeFooter(at place: Int) -> Bool {
    guard place >= SegmentHeader.fixedLength else { return false }
    return bytes.withUnsafeBytes { bytes in
      guard let header = candidate(bytes, at: place), header.kind == .footer,
        place + header.length == end
      else { return false }
      return agrees(UnsafeRawBufferPointer(rebasing: bytes[(place + header.valueOffset)..<end]))
    }
  }

  /// Returns whether a footer agrees with the manifest. True when the manifest has no figures for
  /// it.
  private func agrees(_ stored: UnsafeRawBufferPointer) -> Bool {
    let footer: SegmentFooter
    do throws(FormatError) { footer = try SegmentFooter(decoding: stored) } catch { return false }
    guard let entry = plan.entry, entry.isSealed else { return true }
    return footer.recordCount == entry.recordCount && footer.firstSequence == entry.firstSequence
      && footer.lastSequence == entry.lastSequence
  }

  /// Returns the seed on which the consecutive records from this place on agree.
  private func seed(_ bytes: UnsafeRawBufferPointer, at start: Int) -> Checksum? {
    guard let first = candidate(bytes, at: start) else { return nil }
    let second = start + aligned(first.length)
    guard candidate(bytes, at: second) != nil else { return nil }
    let seed = RecordHeader.seed(
      ofRecord: bytes.baseAddress! + start, length: first.length, at: UInt64(start))
    var (place, count) = (second, 1)
    while count < Self.agreeingCount, let header = candidate(bytes, at: place) {
      guard header.checksumMatches(in: bytes, at: place, seed: seed) else { return nil }
      count += 1
      place += aligned(header.length)
    }
    // Two records are enough when no others follow.
    let isAll = bytes[min(place, bytes.count)...].allSatisfy { $0 == 0 }
    return count == Self.agreeingCount || (count == 2 && isAll) ? seed : nil
  }

  /// Returns the header at a place that looks like a record of this segment.
  private func candidate(_ bytes: UnsafeRawBufferPointer, at place: Int) -> RecordHeader? {
    guard let header = RecordHeader.candidate(in: bytes, at: place, before: end) else { return nil }
    guard header.kind.isOperation else { return header }
    let (lowest, highest) = plan.sequences
    return header.sequence >= lowest && header.sequence <= highest ? header : nil
  }
}
