import MoraineFormat
import Testing

@testable import MoraineEngine

/// The LZ4 of this build and the LZ4 in Swift read each compressed value of the golden stores.
@Suite struct GoldenCompressionTests {
  @Test func bothImplementationsReadEachCompressedValue() throws {
    var codecs: [RecordCodec: Int] = [:]
    for golden in GoldenStore.all {
      for name in golden.segments {
        let bytes = try #require(golden.files[name])
        let dictionary = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }.dictionary
        for (offset, header) in try GoldenStore.places(in: bytes) where header.codec != .raw {
          let stored = Array(bytes[offset + header.valueOffset..<offset + header.length])
          let history = header.codec == .lz4Dictionary ? dictionary : []
          let first = try #require(Self.decompress(stored, header.rawLength, history))
          let second = Self.decompressInSwift(stored, header.rawLength, history)
          #expect(first == second, "\(golden), \(name) at \(offset)")
          codecs[header.codec, default: 0] += 1
        }
      }
    }
    #expect(codecs[.lz4] ?? 0 > 0)
    #expect(codecs[.lz4Dictionary] ?? 0 > 0)
  }

  private static func decompress(
    _ stored: [UInt8], _ length: Int, _ dictionary: [UInt8]
  ) -> [UInt8]? {
    var target = [UInt8](repeating: 0, count: length)
    let isSound = target.withUnsafeMutableBytes { target in
      stored.withUnsafeBytes { stored in
        dictionary.withUnsafeBytes {
          Decompressor.decompress(stored, into: target, dictionary: $0)
        }
      }
    }
    return isSound ? target : nil
  }

  private static func decompressInSwift(
    _ stored: [UInt8], _ length: Int, _ dictionary: [UInt8]
  ) -> [UInt8]? {
    var decompressor = PortableDictionaryDecompressor(dictionary: dictionary)
    return stored.withUnsafeBytes {
      decompressor.decompress($0, rawLength: length).map { Array($0) }
    }
  }
}
