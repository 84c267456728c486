import MoraineFormat
import Testing

#if LIBLZ4 && !PortableLZ4
  import CLZ4
#endif

@Suite("Compression with a dictionary") struct DictionaryCompressionTests {
  private static let lengths = [0, 1, 3, 4, 7, 8, 9, 100, 4096, 65_535, 65_536]

  private func compress(
    _ value: [UInt8], with compressor: inout DictionaryCompressor
  ) -> [UInt8]? {
    value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
  }

  private func decompress(_ stored: [UInt8], rawLength: Int, dictionary: [UInt8]) -> [UInt8]? {
    var target = [UInt8](repeating: 0xA5, count: rawLength + 8)
    let done = stored.withUnsafeBytes { stored in
      dictionary.withUnsafeBytes { dictionary in
        target.withUnsafeMutableBytes {
          Decompressor.decompress(
            stored, into: UnsafeMutableRawBufferPointer(rebasing: $0[..<rawLength]),
            dictionary: dictionary)
        }
      }
    }
    #expect(target[rawLength...].allSatisfy { $0 == 0xA5 }, "nothing is written past the target")
    let value = done ? Array(target[..<rawLength]) : nil
    var decompressor = DictionaryDecompressor(dictionary: dictionary)
    let other = stored.withUnsafeBytes {
      decompressor.decompress($0, rawLength: rawLength).map { Array($0) }
    }
    // The bytes of a damaged block may differ, where the block refers to bytes that were not yet
    // written.
    #expect((other == nil) == (value == nil), "both ways to decompress agree")
    return value
  }

  @Test(arguments: lengths) func roundTrip(length: Int) throws {
    var generator = SeededGenerator(seed: 20)
    let documents = Documents.users(count: 600, seed: 21)
    let dictionary = Array(documents.joined().suffix(length))
    try #require(dictionary.count == length)
    var compressor = DictionaryCompressor(dictionary: dictionary)
    var values = Documents.users(count: 50, seed: 22)
    for length in [0, 1, 23, 24, 500, 5000, 70_000] { values.append(generator.bytes(length)) }
    values.append(Array(documents.joined()))
    // One compressor for all values: no bytes of one value may appear in the next.
    var compressed = 0
    for value in values + values {
      guard let stored = compress(value, with: &compressor) else { continue }
      compressed += 1
      #expect(stored.count <= value.count - value.count / 8)
      #expect(value.count <= StoreLimits.rawLengthBound(stored: stored.count))
      #expect(decompress(stored, rawLength: value.count, dictionary: dictionary) == value)
    }
    // With a whole document in the dictionary every document shrinks; without it none does.
    #expect(length < 4096 || compressed >= 2 * 51)
    compressor.trim()
  }

  @Test func copiedStateCompressesLikeAFreshState() {
    let dictionary = Array(Documents.users(count: 100, seed: 23).joined())
    var kept = DictionaryCompressor(dictionary: dictionary)
    for value in Documents.users(count: 200, seed: 24) {
      var fresh = DictionaryCompressor(dictionary: dictionary)
      #expect(compress(value, with: &kept) == compress(value, with: &fresh))
      #if LIBLZ4 && !PortableLZ4
        #expect(compress(value, with: &kept) == loadedAnew(value, dictionary))
      #endif
    }
  }

  #if LIBLZ4 && !PortableLZ4
    /// Compresses as `lz4.h` describes it, without copying a state.
    private func loadedAnew(_ value: [UInt8], _ dictionary: [UInt8]) -> [UInt8]? {
      let stream = LZ4_createStream()
      defer { LZ4_freeStream(stream) }
      var target = [CChar](repeating: 0, count: value.count + 100)
      let count = dictionary.withUnsafeBytes { dictionary in
        value.withUnsafeBytes { value in
          LZ4_loadDict(
            stream, dictionary.bindMemory(to: CChar.self).baseAddress, Int32(dictionary.count))
          return LZ4_compress_fast_continue(
            stream, value.bindMemory(to: CChar.self).baseAddress, &target, Int32(value.count),
            Int32(target.count), 1)
        }
      }
      let stored = target[..<Int(count)].map { UInt8(bitPattern: $0) }
      return stored.count <= value.count - value.count / 8 ? stored : nil
    }
  #endif

  @Test func valueThatDoesNotShrinkStaysRaw() {
    var generator = SeededGenerator(seed: 25)
    var compressor = DictionaryCompressor(dictionary: generator.bytes(65_536))
    for length in [0, 1, 23, 24, 100, 5000, 100_000] {
      #expect(compress(generator.bytes(length), with: &compressor) == nil, "\(length) bytes")
    }
  }

  @Test func oneDecompressorServesManyValues() {
    let dictionary = Array(Documents.users(count: 200, seed: 42).joined())
    var compressor = DictionaryCompressor(dictionary: dictionary)
    var decompressor = DictionaryDecompressor(dictionary: dictionary)
    // A large value in between makes the decompressor allocate other memory, which holds the
    // dictionary too.
    var values = Documents.users(count: 50, seed: 43)
    values.insert(values[0] + Array(repeating: 7, count: 2_000_000), at: 25)
    for value in values {
      guard let stored = compress(value, with: &compressor) else {
        Issue.record("not compressed")
        continue
      }
      stored.withUnsafeBytes { stored in
        let same = decompressor.decompress(stored, rawLength: value.count)?.elementsEqual(value)
        #expect(same == true)
        let tooLong = StoreLimits.rawLengthBound(stored: stored.count) + 1
        let impossible = decompressor.decompress(stored, rawLength: tooLong) != nil
        #expect(!impossible)
      }
      decompressor.trim()
    }
  }

  @Test func onlyTheTrueLengthDecompresses() throws {
    let documents = Documents.users(count: 100, seed: 26)
    let dictionary = Array(documents.dropLast().joined())
    var compressor = DictionaryCompressor(dictionary: dictionary)
    let value = documents[99]
    let stored = try #require(compress(value, with: &compressor))
    for length in 0..<(value.count + 300) where length != value.count {
      #expect(decompress(stored, rawLength: length, dictionary: dictionary) == nil, "\(length)")
    }
    for length in stored.indices {
      let truncated = Array(stored[..<length])
      #expect(decompress(truncated, rawLength: value.count, dictionary: dictionary) == nil)
    }
  }

  @Test func valueIsNotDecompressedWithoutItsDictionary() throws {
    let documents = Documents.users(count: 100, seed: 27)
    let dictionary = Array(documents.dropLast().joined())
    var compressor = DictionaryCompressor(dictionary: dictionary)
    let value = documents[99]
    let stored = try #require(compress(value, with: &compressor))
    for other in [[], Array(dictionary.suffix(8)), Array(dictionary.dropLast())] {
      #expect(decompress(stored, rawLength: value.count, dictionary: other) != value)
    }
  }

  @Test func aDamagedBlockDoesNotCrash() throws {
    let documents = Documents.users(count: 300, seed: 28)
    let value = documents[299]
    for length in [8, 1000, 40_000] {
      let dictionary = Array(documents.dropLast().joined().suffix(length))
      var compressor = DictionaryCompressor(dictionary: dictionary)
      let byHand: [UInt8] = [0x4F, 1, 2, 3, 4, 8, 0, 0x50, 1, 2, 3, 4, 5]
      let stored = compress(value, with: &compressor) ?? byHand
      forEachFlip(of: stored, in: stored.indices) { damaged, _ in
        _ = decompress(damaged, rawLength: value.count, dictionary: dictionary)
        _ = decompress(damaged, rawLength: value.count, dictionary: [])
      }
    }
  }

  @Test func noiseDoesNotCrash() {
    var generator = SeededGenerator(seed: 29)
    let dictionary = generator.bytes(65_536)
    for _ in 0..<20_000 {
      let noise = generator.bytes(Int.random(in: 0...64, using: &generator))
      let length = Self.lengths.randomElement(using: &generator)!
      _ = decompress(
        noise, rawLength: Int.random(in: 0...300, using: &generator),
        dictionary: Array(dictionary.prefix(length)))
    }
  }
}
