import MoraineFormat

/// Dictionaries of segments that values are read from, each in front of the place where the values
/// are decompressed: from there a value takes much less time. Bounded, whatever their number.
///
/// Used by one thread at a time: the one that has the segment table.
final class DictionaryCache {
  private final class Place {
    var decompressor: DictionaryDecompressor
    let slot: Int
    /// Grows with each value that is read, and falls with each that wants the place.
    var credit = DictionaryCache.firstCredit

    init(_ dictionary: UnsafeRawBufferPointer, _ slot: Int) {
      decompressor = DictionaryDecompressor(dictionary: [UInt8](dictionary))
      self.slot = slot
    }
  }

  /// Longer ones would not be worth copying out, and take memory.
  static let valueBytes = 4096
  /// Copying a dictionary takes as long as dozens of values.
  private static let firstCredit = 256
  private static let mostCredit = 1024
  private static let placeCount = 64
  private var places: [Place?] = Array(repeating: nil, count: placeCount)

  /// Calls the body with the value of a record, nil when it does not decompress.
  ///
  /// - Returns: false, and does not call it, when the place of the segment's dictionary is
  ///   another's.
  @inline(__always)
  func decompress(
    _ record: RecordReference, _ dictionary: UnsafeRawBufferPointer, of slot: Int,
    _ body: (UnsafeRawBufferPointer?) -> Void
  ) -> Bool {
    guard let place = place(slot, dictionary) else { return false }
    body(place.decompressor.decompress(record.stored, rawLength: record.header.rawLength))
    return true
  }

  @inline(__always)
  private func place(_ slot: Int, _ dictionary: UnsafeRawBufferPointer) -> Place? {
    let number = slot % Self.placeCount
    guard let place = places[number] else {
      places[number] = Place(dictionary, slot)
      return places[number]
    }
    if place.slot == slot {
      if place.credit < Self.mostCredit { place.credit += 1 }
      return place
    }
    place.credit -= 1
    if place.credit == 0 { places[number] = nil }
    return nil
  }

  func forget(_ slot: Int) {
    let number = slot % Self.placeCount
    if places[number]?.slot == slot { places[number] = nil }
  }
}
