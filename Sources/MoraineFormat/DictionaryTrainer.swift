/// Builds one LZ4 dictionary for many values that resemble each other, or finds that none pays.
///
/// Hand in every value, or every n-th, of what will share the dictionary, then call ``train``. The
/// same values in the same order give the same dictionary.
public struct DictionaryTrainer {
  /// A dictionary that saves less of what is stored than this is not worth its cost in reading.
  static let leastSavingPercent = 5

  private var samples = SampleSet()

  public init() {}

  /// False when ``add`` would ignore the next value: call ``skip`` instead of fetching it.
  public var wantsNext: Bool { samples.wantsNext }

  /// Takes note of the next value; it is copied, if at all.
  ///
  /// - Complexity: O(value), of which at most 8 KiB count.
  public mutating func add(_ value: UnsafeRawBufferPointer) { samples.add(value) }

  /// As ``add`` when ``wantsNext`` is false, without a value.
  public mutating func skip() { samples.skip() }

  /// The dictionary, or nil when it would not save at least a twentieth of what is stored, itself
  /// included.
  ///
  /// Every fourth sample takes no part in choosing the bytes; those decide whether the dictionary
  /// pays, and how long it is.
  ///
  /// - Parameter totalValueBytes: what all values that will share the dictionary hold, raw.
  /// - Complexity: some 20 ms for a full set of samples, which takes about 10 MB while it runs.
  public func train(totalValueBytes: Int) -> [UInt8]? {
    let coverage = DictionaryCover(samples)
    let longest = coverage.dictionary(limit: SegmentHeader.dictionaryLimit)
    guard !longest.isEmpty else { return nil }
    return DictionaryTrial(samples, totalValueBytes: totalValueBytes).best(of: longest)
  }
}

/// Values spread evenly over all that were handed in, as many as fit.
struct SampleSet {
  static let limitBytes = 3 << 19
  static let limitCount = 1 << 15
  /// Behind this, a value finds more in itself than in a dictionary.
  static let longestSampleBytes = 8192
  /// So that eight bytes can be read at each place of a sample.
  static let paddingBytes = 8

  /// The samples, one after another, in the order they came, and the padding.
  private(set) var bytes: [UInt8] = []
  private(set) var ends: [Int] = []
  /// How long each value is, of which a sample may be the beginning.
  private(set) var fullLengths: [Int] = []
  /// Every value whose index is a multiple of this is a sample.
  private var stride = 1
  private var index = 0

  var count: Int { ends.count }
  var wantsNext: Bool { index % stride == 0 }

  func range(_ sample: Int) -> Range<Int> { (sample == 0 ? 0 : ends[sample - 1])..<ends[sample] }
  /// Kept from training, to judge its result.
  static func isHeldOut(_ sample: Int) -> Bool { sample % 4 == 3 }

  mutating func skip() { index += 1 }

  mutating func add(_ value: UnsafeRawBufferPointer) {
    defer { index += 1 }
    let length = min(value.count, Self.longestSampleBytes)
    while wantsNext, bytes.count + length > Self.limitBytes || count == Self.limitCount { thin() }
    guard wantsNext else { return }
    bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: value[..<length]))
    ends.append(bytes.count)
    fullLengths.append(value.count)
  }

  /// Lets every other sample go.
  private mutating func thin() {
    var kept = SampleSet()
    kept.stride = stride * 2
    kept.index = index
    for sample in Swift.stride(from: 0, to: count, by: 2) {
      kept.bytes.append(contentsOf: bytes[range(sample)])
      kept.ends.append(kept.bytes.count)
      kept.fullLengths.append(fullLengths[sample])
    }
    self = kept
  }
}
