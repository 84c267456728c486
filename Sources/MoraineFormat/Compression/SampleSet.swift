/// A random choice of the added values: as many as fit, each with the same probability.
///
/// A hash of a value's index decides. Every n-th value would miss values that come at intervals.
struct SampleSet {
  static let limitBytes = 3 << 19
  static let limitCount = 1 << 15
  /// After this many bytes a value has more matches in itself than in a dictionary.
  static let longestSampleBytes = 8192

  struct Sample {
    var range: Range<Int>
    /// The length of the value. The sample may be only its beginning.
    var fullLength: Int
    var hash: UInt64
    /// Whether the sample takes no part in training, so that it can measure the result.
    var isHeldOut: Bool { hash >> 62 == 0 }
  }

  private(set) var bytes: [UInt8] = []
  private(set) var samples: [Sample] = []
  /// A value is a sample if at least this many low bits of its hash are zero.
  private var level = 0
  private var index: UInt64 = 0
  private var nextHash = Self.hash(0)

  var wantsNext: Bool { nextHash.trailingZeroBitCount >= level }

  mutating func skip() {
    index += 1
    nextHash = Self.hash(index)
  }

  mutating func add(_ value: UnsafeRawBufferPointer) {
    let length = min(value.count, Self.longestSampleBytes)
    while wantsNext, bytes.count + length > Self.limitBytes || samples.count == Self.limitCount {
      thin()
    }
    if wantsNext {
      let start = bytes.count
      bytes.append(contentsOf: value.prefix(length))
      samples.append(
        Sample(range: start..<bytes.count, fullLength: value.count, hash: nextHash))
    }
    skip()
  }

  /// Removes about every other sample.
  private mutating func thin() {
    level += 1
    let before = self
    bytes.removeAll(keepingCapacity: true)
    samples.removeAll(keepingCapacity: true)
    for var sample in before.samples where sample.hash.trailingZeroBitCount >= level {
      let start = bytes.count
      bytes.append(contentsOf: before.bytes[sample.range])
      sample.range = start..<bytes.count
      samples.append(sample)
    }
  }

  private static func hash(_ index: UInt64) -> UInt64 {
    StateDigest.mix(index &+ 0x9E37_79B9_7F4A_7C15)
  }
}
