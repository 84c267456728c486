import BenchmarkSupport

/// Keys and values of one workload, made before any row begins. The same seed gives the same data.
///
/// The first half of a value is random and the second half repeats it, as in db_bench. A value is
/// completely random where compression must have no effect, as in redb's benchmark.
struct Dataset: Sendable {
  let count: Int
  let keyLength: Int
  /// Every number below `count` once, in random order.
  let order: [Int]
  private let values: [[UInt8]]

  init(
    count: Int, keyLength: Int = 16, valueLength: Int = 100, isCompressible: Bool = true,
    seed: UInt64 = 1
  ) {
    var generator = SplitMix64(seed: seed)
    self.count = count
    self.keyLength = keyLength
    order = (0..<count).shuffled(using: &generator)
    // The number is so large that neither the values nor what the processor learns from them stay
    // in the fastest cache.
    let valueCount = max(4, min(4096, (1 << 20) / max(1, valueLength)).lowerPowerOfTwo)
    values = (0..<valueCount).map { _ in
      let randomCount = isCompressible ? (valueLength + 1) / 2 : valueLength
      let random = (0..<randomCount).map { _ in UInt8.random(in: 0...255, using: &generator) }
      return Array((random + random).prefix(valueLength))
    }
  }

  var keyBytes: Int { count * keyLength }
  var bytes: Int { count * (keyLength + values[0].count) }

  @inline(__always)
  func key(_ number: Int) -> KeyBytes { KeyBytes(number, count: keyLength) }

  /// - Parameter generation: number of times that the key was overwritten.
  @inline(__always)
  func value(_ number: Int, generation: Int = 0) -> [UInt8] {
    values[(number &+ generation &* 7) & (values.count - 1)]
  }
}

extension Int {
  fileprivate var lowerPowerOfTwo: Int { 1 << (bitWidth - 1 - leadingZeroBitCount) }
}
