#if LIBLZ4 && !PortableLZ4
  import Foundation
  import MoraineFormat
  import Testing

  /// `liblz4` and the LZ4 in Swift decompress what the other one compresses, and refuse the same
  /// blocks. A build without `liblz4` does not contain these tests.
  @Suite("LZ4 in Swift and liblz4", .timeLimit(.minutes(60))) struct LZ4AgreementTests {
    /// The seeds to try: MORAINE_LZ4_INPUTS says how many, MORAINE_LZ4_SEED the first one.
    private static var seeds: Range<UInt64> {
      let environment = ProcessInfo.processInfo.environment
      let first = environment["MORAINE_LZ4_SEED"].flatMap { UInt64($0) } ?? 1
      let count = environment["MORAINE_LZ4_INPUTS"].flatMap { UInt64($0) }
      let isOne = environment["MORAINE_LZ4_SEED"] != nil
      return first..<first + (count ?? (isOne ? 1 : 4000))
    }

    private static func replay(_ seed: UInt64) -> Comment {
      "MORAINE_LZ4_SEED=\(seed) swift test --filter LZ4AgreementTests"
    }

    @Test func eachDecompressesWhatTheOtherCompresses() throws {
      var compressed = 0
      for seed in Self.seeds {
        var input = RandomInput(seed: seed)
        let dictionary = input.dictionary()
        let value = input.value(like: dictionary)
        let blocks = [
          Self.system(value, dictionary), Self.portable(value, dictionary),
          Self.system(value, []), Self.portable(value, []),
        ]
        for (index, block) in blocks.enumerated() {
          guard let block else { continue }
          compressed += 1
          let dictionary = index < 2 ? dictionary : []
          for wrong in [value.count - 1, value.count + 1] {
            try #require(LZ4Run.decompress(block, wrong, dictionary) == nil, Self.replay(seed))
          }
          try #require(
            LZ4Run.decompress(block, value.count, dictionary) == value, Self.replay(seed))
          try #require(
            SystemRun.decompress(block, value.count, dictionary) == value, Self.replay(seed))
        }
      }
      #expect(compressed > Self.seeds.count / 2 || Self.seeds.count == 1)
    }

    /// The LZ4 in Swift accepts what the description of the format allows, and `liblz4` agrees. Of
    /// other blocks `liblz4` accepts some: with an offset of zero, for which it writes zeros, or with
    /// too few literals at the end.
    @Test func bothRefuseTheSameBlocks() throws {
      var accepted = 0
      var refused = 0
      for seed in Self.seeds {
        var input = RandomInput(seed: seed &+ 1 << 40)
        let dictionary = input.dictionary()
        let value = Array(input.value(like: dictionary).prefix(300))
        let sound = Self.portable(value, dictionary) ?? Self.literals(value)
        for _ in 0..<4 {
          let block = input.damaged(sound)
          let contents = BlockByHand.contents(of: block, dictionary: dictionary)
          for length in Set([value.count, contents?.count ?? 0]) {
            let replay: Comment = "\(Self.replay(seed)), \(length) bytes: \(block)"
            let portable = LZ4Run.decompress(block, length, dictionary)
            try #require(portable == (contents?.count == length ? contents : nil), replay)
            if portable == nil { refused += 1 } else { accepted += 1 }
            let system = SystemRun.decompress(block, length, dictionary)
            if contents != nil { try #require(system == portable, replay) }
          }
        }
      }
      #expect(min(refused, accepted) > Self.seeds.count / 100 || Self.seeds.count == 1)
    }

    /// The values of the sample data are compressed as well as by `liblz4`.
    @Test func ratiosDifferByLessThanFivePercent() throws {
      let documents = Documents.users(count: 2000, seed: 70)
      let characters = try Self.characters()
      let pages = stride(from: 0, to: characters.count, by: 50).map {
        Array(characters[$0..<min($0 + 50, characters.count)].joined(separator: [10]))
      }
      for (name, values) in [("documents", documents), ("lines", characters), ("pages", pages)] {
        for length in [0, 4096, 16_384, 65_536] {
          let dictionary = Array(values.prefix(values.count / 2).joined().suffix(length))
          var system = 0
          var portable = 0
          for value in values.suffix(values.count / 2) {
            system += Self.system(value, dictionary)?.count ?? value.count
            portable += Self.portable(value, dictionary)?.count ?? value.count
          }
          let ratio = Double(portable) / Double(system)
          #expect(ratio < 1.05, "\(name), dictionary of \(length): \(portable) and \(system) bytes")
        }
      }
    }

    private static func characters() throws -> [[UInt8]] {
      let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
      let file = root.appending(path: "Sources/MoraineDemo/Data/characters.jsonl")
      return [UInt8](try Data(contentsOf: file)).split(separator: 10).map { Array($0) }
    }

    private static func literals(_ value: [UInt8]) -> [UInt8] {
      var block = BlockByHand()
      block.end(value)
      return block.bytes
    }

    private static func system(_ value: [UInt8], _ dictionary: [UInt8]) -> [UInt8]? {
      guard !dictionary.isEmpty else {
        var compressor = SystemCompressor()
        return value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
      }
      var compressor = SystemDictionaryCompressor(dictionary: dictionary)
      return value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
    }

    private static func portable(_ value: [UInt8], _ dictionary: [UInt8]) -> [UInt8]? {
      guard !dictionary.isEmpty else {
        var compressor = PortableCompressor()
        return value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
      }
      var compressor = PortableDictionaryCompressor(dictionary: dictionary)
      return value.withUnsafeBytes { compressor.compress($0).map { Array($0) } }
    }
  }

  /// One call of `liblz4`, with memory of exactly the right size.
  private enum SystemRun {
    static func decompress(_ block: [UInt8], _ length: Int, _ dictionary: [UInt8]) -> [UInt8]? {
      let target = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 1)
      defer { target.deallocate() }
      let isSound = block.withUnsafeBytes { block in
        dictionary.withUnsafeBytes { dictionary in
          dictionary.isEmpty
            ? SystemDecompressor.decompress(block, into: target)
            : SystemDecompressor.decompress(block, into: target, dictionary: dictionary)
        }
      }
      return isSound ? Array(target) : nil
    }
  }

  /// Values and dictionaries with literals, repetitions and common parts of all kinds of lengths.
  private struct RandomInput {
    private var generator: SeededGenerator

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    private mutating func below(_ limit: Int) -> Int {
      limit > 1 ? Int(generator.next() % UInt64(limit)) : 0
    }

    /// Half of the inputs have no dictionary.
    mutating func dictionary() -> [UInt8] {
      let lengths = [0, 0, 0, 0, 0, 0, 1, 7, 8, 50, 1000, 20_000]
      // Long dictionaries are rarer, because it takes long to make them.
      let length =
        below(40) == 0 ? 65_534 + below(3) : lengths[below(lengths.count)]
      let value = self.value(like: [], length: length)
      return value + generator.bytes(length - value.count)
    }

    mutating func value(like dictionary: [UInt8]) -> [UInt8] {
      let most = below(200) == 0 ? 200_000 : below(2) == 0 ? 300 : 3000
      return value(like: dictionary, length: below(most + 1))
    }

    private mutating func value(like dictionary: [UInt8], length: Int) -> [UInt8] {
      var value: [UInt8] = []
      value.reserveCapacity(length + 1000)
      let alphabet = [2, 4, 26, 256][below(4)]
      while value.count < length {
        switch below(6) {
        case 0 where !value.isEmpty:
          let far = [1 + below(20), 1 + below(value.count), 65_535 - below(3), 65_536][below(4)]
          let offset = min(value.count, far)
          for _ in 0..<below(below(10) == 0 ? 700 : 40) {
            value.append(value[value.count - offset])
          }
        case 1 where !dictionary.isEmpty:
          value += dictionary.dropFirst(below(dictionary.count)).prefix(below(60))
        case 2 where !dictionary.isEmpty:
          // Across the end of the dictionary.
          value += dictionary.suffix(below(60))
          value += Array(value.prefix(below(50)))
        case 3:
          value += Array(repeating: UInt8(below(256)), count: below(100))
        default:
          for _ in 0..<below(below(8) == 0 ? 400 : 40) { value.append(UInt8(below(alphabet))) }
        }
      }
      return Array(value.prefix(length))
    }

    /// Returns the block with a few other bytes, another end, or only noise.
    mutating func damaged(_ block: [UInt8]) -> [UInt8] {
      var block = block
      switch below(5) {
      case 0: block.removeLast(below(block.count) + 1)
      case 1: block.append(UInt8(below(256)))
      case 2: block = generator.bytes(below(40))
      default: break
      }
      for _ in 0..<below(3) where !block.isEmpty {
        block[below(block.count)] = [0, 1, 0xFF, 0xF0, 0x0F, 0x1F, UInt8(below(256))][below(7)]
      }
      return block
    }
  }
#endif
