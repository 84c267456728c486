import CMoraineShims
import MoraineFormat
import Testing

@Suite("Checksum") struct ChecksumTests {
  @Test func knownAnswers() {
    #expect(Checksum.of(Array("123456789".utf8)) == 0xE306_9283)
    #expect(Checksum.of([]) == 0)
    // RFC 3720, B.4.
    #expect(Checksum.of([UInt8](repeating: 0, count: 32)) == 0x8A91_36AA)
    #expect(Checksum.of([UInt8](repeating: 0xFF, count: 32)) == 0x62A8_AB43)
    #expect(Checksum.of(Array(0..<32)) == 0x46DD_794E)
  }

  /// A processor that has one method has those before it too.
  private static let methods = (0...moraine_crc32c_fastest().rawValue).map {
    moraine_crc32c_method(rawValue: $0)
  }

  /// Streams are of 128 bytes or of 1,024, three at a time; folded blocks are of 256 bytes, with
  /// vectors of 64 after them.
  @Test func allMethodsAgree() {
    var generator = SeededGenerator(seed: 1)
    for length in Array(0...1200) + [3071, 3072, 3073, 3455, 3456, 7000, 70_001] {
      let start = UInt32(truncatingIfNeeded: generator.next())
      // One byte more and a shifted start: the words are not aligned.
      let bytes = generator.bytes(length + 1)
      bytes.withUnsafeBytes { buffer in
        for shift in 0...1 {
          let base = buffer.baseAddress! + shift
          let sum = moraine_crc32c_table(start, base, length)
          #expect(moraine_crc32c(start, base, length) == sum)
          for method in Self.methods {
            #expect(
              moraine_crc32c_by(method, start, base, length) == sum,
              "method \(method.rawValue), \(length) bytes, shift \(shift)")
          }
        }
      }
    }
  }

  @Test func piecesGiveTheSumOfTheWhole() {
    var generator = SeededGenerator(seed: 2)
    let bytes = generator.bytes(100)
    for cut in 0...100 {
      var checksum = Checksum()
      bytes[..<cut].withUnsafeBytes { checksum.update($0) }
      bytes[cut...].withUnsafeBytes { checksum.update($0) }
      #expect(checksum.value == Checksum.of(bytes))
    }
  }
}
