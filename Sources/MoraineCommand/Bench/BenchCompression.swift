import MoraineFormat
import MoraineTesting

/// Blocks of JSON lines, compressed and decompressed with the LZ4 of this build, and with the LZ4
/// in Swift.
struct BenchCompression {
  private static let blockBytes = 4096
  /// More blocks would only repeat the work, which the caches of the processor see through.
  private static let blockCount = 1000

  private let blocks: [[UInt8]]
  private let count: Int

  /// - Parameter count: the number of operations of each row.
  init(count: Int) {
    self.count = count
    var generator = SeededGenerator(seed: 2)
    blocks = (0..<Self.blockCount).map { _ in Self.block(&generator) }
  }

  func run() throws -> [BenchRow] {
    var compressor = Compressor()
    let (compressing, stored) = try compress("compress 4 KiB") { compressor.compress($0) }
    let decompressing = try decompress("uncompress 4 KiB", stored) {
      Decompressor.decompress($0, into: $1)
    }
    var portable = PortableCompressor()
    let (compressingInSwift, other) = try compress("compress, Swift") { portable.compress($0) }
    let decompressingInSwift = try decompress("uncompress, Swift", other) {
      PortableDecompressor.decompress($0, into: $1)
    }
    return [compressing, decompressing, compressingInSwift, decompressingInSwift]
  }

  /// Returns the row, and the compressed blocks.
  private func compress(
    _ name: String, _ body: (UnsafeRawBufferPointer) -> UnsafeRawBufferPointer?
  ) throws -> (row: BenchRow, stored: [[UInt8]]) {
    var compressed = 0
    let elapsed = ContinuousClock().measure {
      for number in 0..<count {
        compressed += blocks[number % blocks.count].withUnsafeBytes { body($0) == nil ? 0 : 1 }
      }
    }
    let stored = blocks.compactMap { block in
      block.withUnsafeBytes { block in body(block).map { [UInt8]($0) } }
    }
    guard compressed == count, stored.count == blocks.count else {
      throw Failure(code: 3, message: "a block of JSON lines was not compressed")
    }
    return (BenchRow(name: name, operationCount: count, elapsed: elapsed), stored)
  }

  private func decompress(
    _ name: String, _ stored: [[UInt8]],
    _ body: (UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer) -> Bool
  ) throws -> BenchRow {
    var target = [UInt8](repeating: 0, count: Self.blockBytes)
    var decompressed = 0
    let elapsed = ContinuousClock().measure {
      target.withUnsafeMutableBytes { target in
        for number in 0..<count {
          decompressed += stored[number % stored.count].withUnsafeBytes { body($0, target) ? 1 : 0 }
        }
      }
    }
    for number in stored.indices {
      let isSound = target.withUnsafeMutableBytes { target in
        stored[number].withUnsafeBytes { body($0, target) }
      }
      guard isSound, target == blocks[number], decompressed == count else {
        throw Failure(code: 3, message: "a block was decompressed to something else")
      }
    }
    return BenchRow(name: name, operationCount: count, elapsed: elapsed)
  }

  private static func block(_ generator: inout SeededGenerator) -> [UInt8] {
    let names = ["Ada", "Grace", "Edsger", "Barbara", "Donald", "Tony", "Leslie", "Radia"]
    let cities = ["London", "New York", "Rotterdam", "Boston", "Palo Alto", "Vienna", "Oslo"]
    var block: [UInt8] = []
    while block.count < blockBytes {
      let number = generator.next() % 1_000_000
      let name = names[Int(number % 8)]
      let line = """
        {"id":\(number),"name":"\(name)","email":"\(name)\(number)@example.com",\
        "city":"\(cities[Int(generator.next() % 7)])","active":\(number % 2 == 0),\
        "created":\(1_700_000_000 + generator.next() % 1_000_000),"roles":["reader"]}\n
        """
      block += line.utf8
    }
    return Array(block.prefix(blockBytes))
  }
}
