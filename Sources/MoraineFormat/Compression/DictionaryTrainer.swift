/// Builds one LZ4 dictionary for many values that resemble each other, or finds that none pays.
///
/// Hand in every value of what will share the dictionary, in any order, then call ``train``. The
/// same values in the same order give the same dictionary.
public struct DictionaryTrainer {
  /// A dictionary that saves less of what is stored is not worth its cost where values are read.
  static let leastSavingPercent = 5

  /// The most that ``sampleBytes`` gets to.
  public static var sampleLimitBytes: Int { SampleSet.limitBytes }

  private var samples = SampleSet()

  public init() {}

  /// What the trainer holds of the values.
  public var sampleBytes: Int { samples.bytes.count }

  /// False when ``add`` would ignore the next value: call ``skip`` instead of fetching it.
  public var wantsNext: Bool { samples.wantsNext }

  /// Takes note of the next value, and copies it if it becomes a sample.
  ///
  /// - Complexity: O(value), of which at most 8 KiB count; amortized.
  public mutating func add(_ value: UnsafeRawBufferPointer) { samples.add(value) }

  /// As ``add`` when ``wantsNext`` is false, without a value.
  public mutating func skip() { samples.skip() }

  /// A dictionary of at most 64 KiB, or nil when none would save at least a twentieth of what is
  /// stored, its own bytes included.
  ///
  /// About a quarter of the samples take no part in choosing the bytes. They decide whether the
  /// dictionary pays, and how long it is.
  ///
  /// - Parameter totalValueBytes: the raw bytes of all values that will share the dictionary.
  /// - Complexity: some 30 ms for a full set of samples; takes up to 5 MB beside the samples.
  public func train(totalValueBytes: Int) -> [UInt8]? {
    let cover = DictionaryCover(samples)
    let longest = cover.dictionary(limit: SegmentHeader.dictionaryLimit)
    guard !longest.isEmpty else { return nil }
    return DictionaryTrial(samples, totalValueBytes: totalValueBytes).best(of: longest)
  }
}
