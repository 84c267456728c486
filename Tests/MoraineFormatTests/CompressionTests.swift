import MoraineFormat
import Testing

@Suite("Compression") struct CompressionTests {
  private func decompress(_ stored: [UInt8], rawLength: Int) -> [UInt8]? {
    var target = [UInt8](repeating: 0, count: rawLength)
    let done = stored.withUnsafeBytes { stored in
      target.withUnsafeMutableBytes { Decompressor.decompress(stored, into: $0) }
    }
    return done ? target : nil
  }

  @Test func roundTrip() throws {
    var generator = SeededGenerator(seed: 5)
    var compressor = Compressor()
    // One compressor for all values: no bytes of one value may appear in the next.
    for length in Array(24...200) + [4096, 65_536, 70_000, 2_000_000, 100] {
      let pattern = generator.bytes(Int.random(in: 1...3, using: &generator))
      let value = (0..<length).map { pattern[$0 % pattern.count] }
      let compressed = value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
      let stored = try #require(compressed, "\(length) bytes")
      #expect(stored.count <= length - length / 8)
      #expect(length <= StoreLimits.rawLengthBound(stored: stored.count))
      #expect(decompress(stored, rawLength: length) == value)
      compressor.trim()
    }
  }

  @Test func valueThatDoesNotShrinkStaysRaw() {
    var generator = SeededGenerator(seed: 6)
    var compressor = Compressor()
    for length in [0, 1, 23, 24, 100, 5000, 100_000] {
      let noise = generator.bytes(length)
      let ofNoise = noise.withUnsafeBytes { compressor.compress($0) != nil }
      #expect(!ofNoise, "\(length) bytes")
    }
    let short = [UInt8](repeating: 0, count: Compressor.shortestLengthBytes - 1)
    let ofShort = short.withUnsafeBytes { compressor.compress($0) != nil }
    #expect(!ofShort)
  }

  /// A long value gets no more room than it may take, and is stored compressed up to that length.
  @Test(arguments: [65_536, 100_000, 1_000_000])
  func longValueMayTakeSevenEighths(length: Int) throws {
    var generator = SeededGenerator(seed: 8)
    let noise = generator.bytes(length)
    var compressor = Compressor()
    let most = length - length / 8
    var longest = 0
    // One more byte of noise makes the result a byte longer. LZ4 writes a byte for each 255 bytes.
    for noiseLength in most - length / 255 - 200..<most - length / 255 + 100 {
      let zeros = [UInt8](repeating: 0, count: length - noiseLength)
      let value = zeros + noise[..<noiseLength]
      let compressed = value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
      guard let compressed else { continue }
      longest = max(longest, compressed.count)
      #expect(decompress(compressed, rawLength: length) == value, "\(noiseLength)")
    }
    #expect(longest == most)
  }

  @Test func onlyTheTrueLengthDecompresses() throws {
    var compressor = Compressor()
    let value = [UInt8](repeating: UInt8(ascii: "z"), count: 1000)
    let compressed = value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
    let stored = try #require(compressed)
    for length in [0, 1, 500, 999, 1001, 5000] {
      #expect(decompress(stored, rawLength: length) == nil, "\(length) bytes")
    }
    for length in stored.indices {
      #expect(decompress(Array(stored[..<length]), rawLength: 1000) == nil)
    }
    #expect(decompress([], rawLength: 0) == nil)
  }

  @Test func noiseDoesNotCrash() {
    var generator = SeededGenerator(seed: 7)
    for _ in 0..<2000 {
      let noise = generator.bytes(Int.random(in: 0...64, using: &generator))
      _ = decompress(noise, rawLength: Int.random(in: 0...300, using: &generator))
    }
  }
}
