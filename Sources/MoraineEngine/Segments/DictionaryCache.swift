import MoraineFormat

/// A bounded cache of the dictionaries of segments. Each dictionary lies directly in front of the
/// buffer that values are decompressed into: this way a value takes much less time.
///
/// One thread at a time uses the cache: the thread that holds the segment table.
final class DictionaryCache {
  private final class Place {
    var decompressor: DictionaryDecompressor
    let slot: Int
    /// Grows with each value that is read, and falls with each read that needs the place for
    /// another dictionary.
    var credit = DictionaryCache.firstCredit

    init(_ dictionary: UnsafeRawBufferPointer, _ slot: Int) {
      decompressor = DictionaryDecompressor(dictionary: [UInt8](dictionary))
      self.slot = slot
    }
  }

  /// Length of the longest value that the cache decompresses. Longer values are not worth another
  /// copy, and they take memory.
  static let valueBytes = 4096
  /// Copying a dictionary takes as long as decompressing dozens of values.
  private static let firstCredit = 256
  private static let mostCredit = 1024
  private static let placeCount = 64
  private var places: [Place?] = Array(repeating: nil, count: placeCount)

  /// Calls the body with the value of a record, or with nil when the value does not decompress.
  ///
  /// - Returns: false, without calling the body, when another segment's dictionary has the place.
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
    assert(place.credit > 0, "a dictionary without credit has kept its place")
    place.credit -= 1
    if place.credit == 0 { places[number] = nil }
    return nil
  }

  func forget(_ slot: Int) {
    let number = slot % Self.placeCount
    if places[number]?.slot == slot { places[number] = nil }
  }
}
