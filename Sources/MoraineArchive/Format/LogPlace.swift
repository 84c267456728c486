package import MoraineFormat

/// A place in the log of a store: a segment, and an offset in its file.
///
/// The salt is random. So two copies of a store that continued separately have no place in common
/// after the point where they separated.
package struct LogPlace: Hashable, Sendable {
  package var segment: SegmentNumber
  package var epoch: UInt64
  /// The salt of the segment's header.
  package var salt: UInt64
  /// The number of bytes of the segment before the place, at least 1.
  package var offset: UInt64

  package init(segment: SegmentNumber, epoch: UInt64, salt: UInt64, offset: UInt64) {
    (self.segment, self.epoch) = (segment, epoch)
    (self.salt, self.offset) = (salt, offset)
  }

  /// Length of the encoded form.
  static let lengthBytes = 32

  /// Whether a store of an epoch can have such a place.
  func isPossible(inEpoch highest: UInt64) -> Bool {
    segment.rawValue >= 1 && segment.rawValue <= StoreLimits.manifestCounter && epoch >= 1
      && epoch <= highest && offset >= 1 && offset <= StoreLimits.segmentLengthBytes
  }
}

extension ByteWriter {
  /// Appends a place, or zeros for nil.
  mutating func append(_ place: LogPlace?) {
    guard let place else { return appendZeros(LogPlace.lengthBytes) }
    append(place.segment.rawValue)
    append(place.epoch)
    append(place.salt)
    append(place.offset)
  }
}

extension ByteReader {
  /// Reads a place, or nil from zeros.
  mutating func readLogPlace() throws(FormatError) -> LogPlace? {
    let place = LogPlace(
      segment: SegmentNumber(rawValue: try read()), epoch: try read(), salt: try read(),
      offset: try read())
    let zero = LogPlace(segment: SegmentNumber(rawValue: 0), epoch: 0, salt: 0, offset: 0)
    return place == zero ? nil : place
  }
}
