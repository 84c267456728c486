import MoraineFormat
import MoraineTesting
import Testing

@testable import MoraineEngine

@Suite struct DictionaryCacheTests {
  /// Whichever segment holds the slot, the value is the one that was stored.
  @Test func segmentsThatShareAPlaceKeepTheirDictionaries() throws {
    let cache = DictionaryCache()
    var generator = SeededGenerator(seed: 9)
    let slots = [0, 64, 128, 5]
    let dictionaries = slots.map { _ in
      (0..<500).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
    let values = dictionaries.map { Array($0[100..<400]) }
    let records = zip(values, dictionaries).map { Self.record($0, $1) }
    var hits = 0
    for _ in 0..<20_000 {
      let number = Int.random(in: 0..<slots.count, using: &generator)
      if Int.random(in: 0..<500, using: &generator) == 0 { cache.forget(slots[number]) }
      records[number].withUnsafeBytes { bytes in
        let header = RecordHeader.parse(bytes.baseAddress!, length: bytes.count)!
        let record = RecordReference(base: bytes.baseAddress!, header: header)
        dictionaries[number].withUnsafeBytes { dictionary in
          let isHit = cache.decompress(record, dictionary, of: slots[number]) {
            #expect($0.map { [UInt8]($0) } == values[number])
          }
          if isHit { hits += 1 }
        }
      }
    }
    // Slot 5 always hits, and one of the three others.
    #expect(hits > 9000)
  }

  private static func record(_ value: [UInt8], _ dictionary: [UInt8]) -> [UInt8] {
    var compressor = DictionaryCompressor(dictionary: dictionary)
    return value.withUnsafeBytes { value in
      var draft = RecordDraft(
        sequence: 1, kind: .put, key: UnsafeRawBufferPointer(start: nil, count: 0),
        stored: compressor.compress(value)!)
      draft.codec = .lz4Dictionary
      draft.rawLength = value.count
      var bytes = [UInt8](repeating: 0, count: draft.length)
      bytes.withUnsafeMutableBytes {
        draft.write(to: $0.baseAddress!, at: 0, seed: Checksum())
      }
      return bytes
    }
  }
}
