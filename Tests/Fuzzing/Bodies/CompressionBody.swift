import MoraineFormat

/// LZ4: input that was not compressed here is refused, or decompressed within its bounds;
/// compressed input is decompressed to the original.
enum CompressionBody {
  static func run(_ input: inout FuzzInput) throws {
    let claimed = input.integer(byteCount: 2)
    let dictionary = input.take(Int(input.byte()) * 8)
    let rest = input.rest()
    try decompress(rest, claimed: claimed, dictionary)
    try roundTrip(rest, dictionary)
  }

  private static func decompress(
    _ stored: [UInt8], claimed: Int, _ dictionary: [UInt8]
  ) throws(Finding) {
    let plain = decompressed(stored, claimed) { Decompressor.decompress($0, into: $1) }
    let prefixed = dictionary.withExactBytes { dictionary in
      decompressed(stored, claimed) {
        Decompressor.decompress($0, into: $1, dictionary: dictionary)
      }
    }
    if dictionary.isEmpty {
      try require(plain == prefixed, "an empty dictionary changes what is decompressed")
    }
    // The same with the dictionary in front of the target.
    var decompressor = DictionaryDecompressor(dictionary: dictionary)
    let kept = stored.withExactBytes { stored in
      decompressor.decompress(stored, rawLength: claimed).map { Array($0) }
    }
    let isPossible = claimed <= StoreLimits.rawLengthBound(stored: stored.count)
    try require(
      kept == (isPossible ? prefixed : nil), "two ways to decompress with a dictionary differ")
    try require(isPossible || plain == nil, "more came out than the bound allows")
  }

  private static func roundTrip(_ value: [UInt8], _ dictionary: [UInt8]) throws(Finding) {
    var compressor = Compressor()
    var sharing = DictionaryCompressor(dictionary: dictionary)
    // Twice: the second run begins with the state of the first run.
    for _ in 0..<2 {
      let plain = value.withExactBytes { compressor.compress($0).map { Array($0) } }
      if let plain {
        try require(plain.count <= value.count - value.count / 8, "an eighth was not saved")
        let back = decompressed(plain, value.count) { Decompressor.decompress($0, into: $1) }
        try require(back == value, "compressed and decompressed, it is something else")
        for wrong in [value.count - 1, value.count + 1] {
          let other = decompressed(plain, wrong) { Decompressor.decompress($0, into: $1) }
          try require(other == nil, "a wrong raw length was believed")
        }
      }
      guard let shared = value.withExactBytes({ sharing.compress($0).map { Array($0) } })
      else { continue }
      let back = dictionary.withExactBytes { dictionary in
        decompressed(shared, value.count) {
          Decompressor.decompress($0, into: $1, dictionary: dictionary)
        }
      }
      try require(back == value, "compressed with a dictionary, it is something else")
    }
  }

  /// Nil when the decompressor refuses.
  private static func decompressed(
    _ stored: [UInt8], _ length: Int,
    _ body: (UnsafeRawBufferPointer, UnsafeMutableRawBufferPointer) -> Bool
  ) -> [UInt8]? {
    let target = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 1)
    defer { target.deallocate() }
    return stored.withExactBytes { body($0, target) } ? Array(target) : nil
  }
}
