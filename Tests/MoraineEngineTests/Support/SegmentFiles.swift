import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting

/// The contents of a segment file.
extension URL {
  var header: SegmentHeader {
    get throws {
      try [UInt8](Data(contentsOf: self)).withUnsafeBytes { try SegmentHeader(decoding: $0) }
    }
  }

  /// The puts of the segment, in order.
  var records: [(key: [UInt8], codec: RecordCodec)] {
    get throws {
      let bytes = [UInt8](try Data(contentsOf: self))
      var place = try header.headerLength
      var result: [(key: [UInt8], codec: RecordCodec)] = []
      bytes.withUnsafeBytes { bytes in
        while place + RecordHeader.fixedLength <= bytes.count {
          let base = bytes.baseAddress! + place
          let length = RecordHeader.length(at: base)
          guard length > 0, let record = RecordHeader.parse(base, length: length) else { break }
          if record.kind == .put {
            let key = bytes[place + record.keyOffset..<place + record.valueOffset]
            result.append(([UInt8](key), record.codec))
          }
          place += aligned(length)
        }
      }
      return result
    }
  }

  var codecs: Set<RecordCodec> {
    get throws { Set(try records.map(\.codec)) }
  }

  func flip(at place: Int) throws {
    let file = try FileHandle(forUpdating: self)
    try file.seek(toOffset: UInt64(place))
    let byte = try file.read(upToCount: 1)!
    try file.seek(toOffset: UInt64(place))
    try file.write(contentsOf: byte.map { $0 ^ 0x10 })
    try file.close()
  }
}

extension Store.Configuration {
  /// Returns a configuration with small segments, which are compacted only by calls.
  static func dictionaries(_ mode: IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 256 << 10, ioMode: mode)
    configuration.compaction.isAutomatic = false
    return configuration
  }
}

/// JSON objects with the same fields and different contents.
enum SimilarDocuments {
  static func make(_ numbers: Range<Int>) -> [[UInt8]] {
    var generator = SeededGenerator(seed: UInt64(numbers.lowerBound))
    let cities = ["London", "New York", "Rotterdam", "Boston", "Palo Alto", "Vienna", "Oslo"]
    return numbers.map { number in
      let city = cities.randomElement(using: &generator)!
      return Array(
        """
        {"identifier":\(number),"created":\(1_700_000_000 + generator.next() % 1_000_000),\
        "address":{"city":"\(city)","country":"somewhere on earth","verified":true},\
        "preferences":{"newsletter":false,"language":"en-GB","theme":"automatic"},"roles":["reader"]}
        """.utf8)
    }
  }
}
