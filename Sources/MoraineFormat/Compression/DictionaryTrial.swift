/// A measurement of the bytes that a dictionary saves, on samples that it was not made from.
struct DictionaryTrial {
  /// The lengths that are tried. Both implementations of LZ4 hash every third place of a dictionary
  /// and remember a limited number of them, so the bytes far from its end help less and less.
  static let lengthsBytes = [4096, 8192, 16_384, 32_768, 65_536]
  /// A longer dictionary must save this share more of the stored bytes: it costs memory, and cache
  /// when values are read.
  static let leastGainPercent = 1
  /// The approximate number of sample bytes that are measured: enough to detect one percent.
  static let limitBytes = 1 << 18

  private let set: SampleSet
  private let samples: [SampleSet.Sample]
  private let totalValueBytes: Int

  init(_ set: SampleSet, totalValueBytes: Int) {
    self.set = set
    self.totalValueBytes = totalValueBytes
    let all = set.samples.filter(\.isHeldOut)
    let step = all.reduce(0) { $0 + $1.range.count } / Self.limitBytes + 1
    samples = stride(from: 0, to: all.count, by: step).map { all[$0] }
  }

  /// Returns the end of `longest` that pays most, or nil when none pays.
  ///
  /// - Complexity: O(samples), once for each length.
  func best(of longest: [UInt8]) -> [UInt8]? {
    let rawBytes = samples.reduce(0) { $0 + $1.fullLength }
    guard rawBytes > 0, totalValueBytes > 0 else { return nil }
    let scale = Double(totalValueBytes) / Double(rawBytes)
    var compressor = Compressor()
    let plain = scale * Double(storedBytes { compressor.compress($0)?.count })
    var best: [UInt8]?
    var limit = plain * Double(100 - DictionaryTrainer.leastSavingPercent) / 100
    for length in Self.lengthsBytes where length < 2 * longest.count {
      let dictionary = Array(longest.suffix(length))
      var compressor = DictionaryCompressor(dictionary: dictionary)
      let stored = scale * Double(storedBytes { compressor.compress($0)?.count })
      guard stored + Double(dictionary.count) <= limit else { continue }
      best = dictionary
      limit = stored + Double(dictionary.count) - plain * Double(Self.leastGainPercent) / 100
    }
    return best
  }

  /// Returns the stored size of the samples' values. Where a sample is the beginning of a value,
  /// the rest of the value counts in full: a dictionary makes no difference there.
  private func storedBytes(_ compressedCount: (UnsafeRawBufferPointer) -> Int?) -> Int {
    set.bytes.withUnsafeBytes { bytes in
      samples.reduce(0) { sum, sample in
        let value = UnsafeRawBufferPointer(rebasing: bytes[sample.range])
        let rest = sample.fullLength - value.count
        return sum + rest + (compressedCount(value) ?? value.count)
      }
    }
  }
}
