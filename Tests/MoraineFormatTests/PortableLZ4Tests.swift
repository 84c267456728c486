import Testing

@testable import MoraineFormat

/// LZ4 in Swift, by itself. `LZ4AgreementTests` compares it with `liblz4`.
@Suite("LZ4 in Swift") struct PortableLZ4Tests {
  /// The value, compressed; nil when an eighth is not saved.
  private func compress(_ value: [UInt8], _ compressor: inout PortableCompressor) -> [UInt8]? {
    value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
  }

  private func decompress(_ block: [UInt8], _ length: Int, _ dictionary: [UInt8] = []) -> [UInt8]? {
    LZ4Run.decompress(block, length, dictionary)
  }

  @Test func everyShortLengthComesBack() throws {
    var generator = SeededGenerator(seed: 60)
    var compressor = PortableCompressor()
    var compressed = 0
    for length in 0...300 {
      for period in [1, 2, 3, 5, 8, 13, 16, 17, 40] {
        let pattern = generator.bytes(period)
        let value = (0..<length).map { pattern[$0 % period] }
        guard let block = compress(value, &compressor) else { continue }
        compressed += 1
        #expect(block.count <= length - length / 8)
        #expect(BlockByHand.contents(of: block, dictionary: []) == value)
        #expect(decompress(block, length) == value, "\(length) bytes, period \(period)")
      }
    }
    #expect(compressed > 1000)
  }

  /// A match that overlaps its own output repeats the bytes before it.
  @Test func matchesRepeatAtEveryShortDistance() {
    let noise = Array(UInt8(1)...255)
    for offset in 1...40 {
      for length in Array(4...80) + [255, 270, 300, 1000] {
        for before in [offset, offset + 1, offset + 30] {
          var block = BlockByHand()
          block.append(Array(noise.prefix(before)), offset: offset, length: length)
          for tail in [12, 100] {
            var whole = block
            whole.end(Array(noise.suffix(tail)))
            let expected = BlockByHand.contents(of: whole.bytes, dictionary: [])!
            #expect(
              decompress(whole.bytes, expected.count) == expected,
              "offset \(offset), length \(length), \(before) bytes before it")
          }
        }
      }
    }
  }

  /// The longest offset reaches 65,535 bytes back: in the value, in the dictionary, and from the
  /// dictionary into the value.
  @Test(arguments: [1, 7, 8, 100, 65_534, 65_535, 65_536])
  func matchesBeginInTheDictionaryAndReachTheValue(dictionaryLength: Int) {
    var generator = SeededGenerator(seed: 61)
    let dictionary = generator.bytes(dictionaryLength)
    for literals in [0, 1, 4, 20] {
      for offset in Set([1, literals + 1, literals + 2, literals + 40, 65_535]).sorted()
      where offset > 0 {
        for length in [4, 15, 16, 17, 18, 19, 50, 600] {
          var block = BlockByHand()
          block.append(generator.bytes(literals), offset: offset, length: length)
          block.end(generator.bytes(12))
          let expected = BlockByHand.contents(of: block.bytes, dictionary: dictionary)
          #expect((expected != nil) == (offset <= literals + dictionary.count))
          #expect(
            decompress(block.bytes, literals + length + 12, dictionary) == expected,
            "\(literals) literals, offset \(offset), length \(length)")
        }
      }
    }
  }

  @Test func offsetOfZeroIsRefused() {
    for length in [4, 18, 19, 100] {
      var block = BlockByHand()
      block.append([1, 2, 3, 4], offset: 0, length: length)
      block.end(Array(repeating: 7, count: 40))
      #expect(decompress(block.bytes, 4 + length + 40) == nil)
    }
  }

  /// The last five bytes are literals, and the last match begins twelve bytes before the end.
  @Test func blocksThatBreakTheRulesOfTheEndAreRefused() {
    for length in 4...20 {
      for tail in 0...12 {
        var block = BlockByHand()
        block.append([1, 2, 3, 4], offset: 2, length: length)
        block.end(Array(repeating: 9, count: tail))
        let expected = BlockByHand.contents(of: block.bytes, dictionary: [])
        #expect((expected != nil) == (tail >= 5 && length + tail >= 12))
        #expect(decompress(block.bytes, 4 + length + tail) == expected, "\(length), \(tail)")
      }
    }
    #expect(decompress([0], 0) == [])
    #expect(decompress([], 0) == nil)
    #expect(decompress([3], 0) == nil)
    #expect(decompress([0, 0], 0) == nil)
  }

  /// A length that promises more than the value is refused before its bytes are added up.
  @Test func endlessLengthsAreRefused() {
    let endless = [UInt8](repeating: 255, count: 100_000)
    #expect(decompress([0xF0] + endless, 1000) == nil)
    #expect(decompress([0x1F, 1, 1, 0] + endless, 1000) == nil)
  }

  @Test func longLengthsComeBack() throws {
    var generator = SeededGenerator(seed: 62)
    var compressor = PortableCompressor()
    for literals in [14, 15, 16, 269, 270, 271, 524, 525, 526, 70_000] {
      for repeats in [18, 19, 20, 273, 274, 275, 528, 529, 530, 1_000_000] {
        let value = generator.bytes(literals) + Array(repeating: UInt8(5), count: repeats)
        guard let block = compress(value, &compressor) else { continue }
        #expect(decompress(block, value.count) == value, "\(literals), \(repeats)")
      }
    }
  }

  /// The block depends on the value alone, not on what the compressor compressed before.
  @Test func compressionDoesNotDependOnEarlierValues() throws {
    var generator = SeededGenerator(seed: 64)
    let dictionary = Array(Documents.users(count: 200, seed: 63).joined())
    var kept = PortableCompressor()
    var sharing = PortableDictionaryCompressor(dictionary: dictionary)
    var compressed = 0
    for number in 0..<3000 {
      let value = fewLetters(24 + number % 400, &generator)
      var fresh = PortableCompressor()
      let block = compress(value, &kept)
      #expect(block == compress(value, &fresh))
      if block != nil { compressed += 1 }
      guard number < 300 else { continue }
      var freshSharing = PortableDictionaryCompressor(dictionary: dictionary)
      value.withUnsafeBytes { value in
        let first = sharing.compress(value).map { Array($0) }
        let second = freshSharing.compress(value).map { Array($0) }
        #expect(first == second)
      }
    }
    #expect(compressed > 1000)
  }

  /// The numbers of the places in the table end at 2^32. Then the table is cleared: what it contains
  /// would become places of values when the numbers come to them again.
  @Test func compressorServesMoreThanFourGigabytes() throws {
    var generator = SeededGenerator(seed: 65)
    let noise = generator.bytes(3000)
    var other = noise
    for start in stride(from: 0, to: 2900, by: 29) {
      other += noise[start..<start + 8]
      other += generator.bytes(8)
    }
    other += Array(repeating: 0, count: 200)
    var fresh = BlockEncoder()
    let expected = try #require(encode(other, &fresh))
    let length = UInt32(other.count)
    for distance in [0, 1, length - 1, length, length + 1, 3 * length] {
      var encoder = BlockEncoder(firstNumber: UInt32.max - distance)
      for _ in 0..<5 { #expect(encode(other, &encoder) == expected, "\(distance)") }
    }
    let first = UInt32.max - 3 * length
    var encoder = BlockEncoder(firstNumber: first)
    _ = encode(Array(noise.dropFirst()), &encoder)
    encoder.nextNumber = UInt32.max - 5
    _ = encode(Array(noise.prefix(24)), &encoder)
    #expect(encoder.nextNumber == 25, "the numbers begin again")
    // As if values of nearly four gigabytes had followed. The table still names the places of the
    // first value, which `other` contains, too.
    encoder.nextNumber = first - 1
    #expect(encode(other, &encoder) == expected)
  }

  /// Values of few letters have many short matches.
  private func fewLetters(_ count: Int, _ generator: inout SeededGenerator) -> [UInt8] {
    (0..<count).map { _ in UInt8(ascii: "a") + UInt8(generator.next() % 3) }
  }

  private func encode(_ value: [UInt8], _ encoder: inout BlockEncoder) -> [UInt8]? {
    var output = [UInt8](repeating: 0, count: value.count + BlockEncoder.slackBytes)
    let count = output.withUnsafeMutableBytes { output in
      value.withUnsafeBytes {
        encoder.encode($0.bytes, into: output, most: $0.count, acceleration: 1)
      }
    }
    return count.map { Array(output[..<$0]) }
  }

  /// A block may have exactly the greatest length that it may have, and writes nothing after the
  /// bytes that it may write.
  @Test func blockHasTheGreatestLengthOrNone() throws {
    var generator = SeededGenerator(seed: 66)
    for value in Documents.users(count: 30, seed: 67) {
      let noise = generator.bytes(Int.random(in: 0...40, using: &generator))
      let value = [noise, value, value, noise.reversed()].flatMap { $0 }
      var encoder = BlockEncoder()
      let block = try #require(encode(value, &encoder))
      for most in 0...(block.count + 1) {
        var output = [UInt8](repeating: 0xA5, count: most + BlockEncoder.slackBytes + 8)
        let count = output.withUnsafeMutableBytes { output in
          let room = UnsafeMutableRawBufferPointer(rebasing: output.dropLast(8))
          return value.withUnsafeBytes {
            encoder.encode($0.bytes, into: room, most: most, acceleration: 1)
          }
        }
        #expect(count == (most >= block.count ? block.count : nil))
        #expect(output.suffix(8).allSatisfy { $0 == 0xA5 })
        if count != nil { #expect(Array(output[..<block.count]) == block) }
      }
    }
  }
}

/// One call of the decompressors in Swift, with memory of exactly the right size.
enum LZ4Run {
  /// Returns nil when the block is refused.
  static func decompress(_ block: [UInt8], _ length: Int, _ dictionary: [UInt8]) -> [UInt8]? {
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 1)
    defer { target.deallocate() }
    let isSound = block.withUnsafeBytes { block in
      dictionary.withUnsafeBytes { dictionary in
        dictionary.isEmpty
          ? PortableDecompressor.decompress(block, into: target)
          : PortableDecompressor.decompress(block, into: target, dictionary: dictionary)
      }
    }
    let value = isSound ? Array(target) : nil
    if length <= StoreLimits.rawLengthBound(stored: block.count) {
      var decompressor = PortableDictionaryDecompressor(dictionary: dictionary)
      let other = block.withUnsafeBytes {
        decompressor.decompress($0, rawLength: length).map { Array($0) }
      }
      #expect(other == value, "both ways to decompress agree")
    }
    return value
  }
}
