/// A trainer of one LZ4 dictionary for many similar values. It may find that no dictionary pays.
///
/// Add every value that will share the dictionary, in any order, then call ``train``. The same
/// values in the same order give the same dictionary.
package struct DictionaryTrainer {
  /// The least saving, in percent of the stored bytes, that pays for the cost of reading values
  /// with a dictionary.
  static let leastSavingPercent = 5

  /// The greatest value of ``sampleBytes``.
  package static var sampleLimitBytes: Int { SampleSet.limitBytes }

  private var samples = SampleSet()

  package init() {}

  /// The number of bytes that the trainer keeps of the values.
  package var sampleBytes: Int { samples.bytes.count }

  /// False when ``add`` would ignore the next value: call ``skip`` instead of fetching it.
  package var wantsNext: Bool { samples.wantsNext }

  /// Counts the next value, and copies it if it becomes a sample.
  ///
  /// - Complexity: O(value), of which at most 8 KiB count; amortized.
  package mutating func add(_ value: UnsafeRawBufferPointer) { samples.add(value) }

  /// Counts the next value without its bytes. Call it when ``wantsNext`` is false.
  package mutating func skip() { samples.skip() }

  /// Returns a dictionary of at most 64 KiB, or nil when none would save at least a twentieth of
  /// the stored bytes, its own bytes included.
  ///
  /// About a quarter of the samples take no part in choosing the bytes. They decide whether the
  /// dictionary pays, and how long it is.
  ///
  /// - Parameter totalValueBytes: the raw bytes of all values that will share the dictionary.
  /// - Complexity: some 30 ms for a full set of samples; takes up to 5 MB in addition to the
  ///   samples.
  package func train(totalValueBytes: Int) -> [UInt8]? {
    let cover = DictionaryCover(samples)
    let longest = cover.dictionary(limit: SegmentHeader.dictionaryLimit)
    guard !longest.isEmpty else { return nil }
    return DictionaryTrial(samples, totalValueBytes: totalValueBytes).best(of: longest)
  }
}
