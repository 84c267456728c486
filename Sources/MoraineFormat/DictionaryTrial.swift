/// Measures on samples that had no part in training what a dictionary saves.
struct DictionaryTrial {
  /// Lengths that are tried. More than these few would fit the samples, not the data.
  static let lengthsBytes = [4096, 8192, 16_384, 32_768, 65_536]
  /// A longer dictionary must save this share more of what is stored: it costs memory and cache
  /// where values are read.
  static let leastGainPercent = 1.0
  static let limitBytes = 1 << 18

  private let samples: SampleSet
  private let totalValueBytes: Int
  private let heldOut: [Int]

  init(_ samples: SampleSet, totalValueBytes: Int) {
    self.samples = samples
    self.totalValueBytes = totalValueBytes
    let all = (0..<samples.count).filter { SampleSet.isHeldOut($0) }
    let bytes = all.reduce(0) { $0 + samples.range($1).count }
    let step = bytes / Self.limitBytes + 1
    heldOut = stride(from: 0, to: all.count, by: step).map { all[$0] }
  }

  /// The end of `longest` that pays most, or nil when none does.
  func best(of longest: [UInt8]) -> [UInt8]? {
    let fullLength = heldOut.reduce(0) { $0 + samples.fullLengths[$1] }
    guard fullLength > 0, totalValueBytes > 0 else { return nil }
    let scale = Double(totalValueBytes) / Double(fullLength)
    var compressor = Compressor()
    // What a sample cuts off from a value is stored the same either way, at most whole.
    let cutBytes = heldOut.reduce(0) { $0 + samples.fullLengths[$1] - samples.range($1).count }
    let plain = Double(stored { compressor.compress($0)?.count } + cutBytes) * scale
    var best: [UInt8]?
    var leastStored = plain * Double(100 - DictionaryTrainer.leastSavingPercent) / 100
    for length in Self.lengthsBytes where length < 2 * longest.count {
      let dictionary = Array(longest.suffix(length))
      var compressor = DictionaryCompressor(dictionary: dictionary)
      let samplesStored = Double(stored { compressor.compress($0)?.count } + cutBytes)
      let total = samplesStored * scale + Double(dictionary.count)
      guard total <= leastStored else { continue }
      best = dictionary
      leastStored = total - plain * Self.leastGainPercent / 100
    }
    return best
  }

  private func stored(_ compressedCount: (UnsafeRawBufferPointer) -> Int?) -> Int {
    samples.bytes.withUnsafeBytes { bytes in
      heldOut.reduce(0) { sum, sample in
        let value = UnsafeRawBufferPointer(rebasing: bytes[samples.range(sample)])
        return sum + (compressedCount(value) ?? value.count)
      }
    }
  }
}
