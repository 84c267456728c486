import MoraineFormat

/// LZ4: input that was not compressed here is refused, or decompressed within its bounds;
/// compressed input is decompressed to the original. Where the build has `liblz4`, it and the LZ4 in
/// Swift agree.
enum CompressionBody {
  static func run(_ input: inout FuzzInput) throws {
    let claimed = input.integer(byteCount: 2)
    let dictionary = input.take(Int(input.byte()) * 8)
    let rest = input.rest()
    var results: [[UInt8]?] = []
    for codec in FuzzedCodec.all {
      results.append(try decompress(rest, claimed: claimed, dictionary, codec))
      try roundTrip(rest, dictionary, codec)
    }
    if results.count == 2, results[0] != results[1] {
      try require(
        results[0] == nil && breaksRules(rest, claimed),
        "the LZ4 in Swift and liblz4 disagree about a block")
    }
  }

  private static func decompress(
    _ stored: [UInt8], claimed: Int, _ dictionary: [UInt8], _ codec: FuzzedCodec
  ) throws(Finding) -> [UInt8]? {
    let plain = codec.decompressed(stored, claimed, nil)
    let prefixed = codec.decompressed(stored, claimed, dictionary)
    if dictionary.isEmpty {
      try require(plain == prefixed, "an empty dictionary changes what is decompressed")
    }
    // The same with the dictionary in front of the target.
    let kept = codec.kept(stored, claimed, dictionary)
    let isPossible = claimed <= StoreLimits.rawLengthBound(stored: stored.count)
    try require(
      kept == (isPossible ? prefixed : nil), "two ways to decompress with a dictionary differ")
    try require(isPossible || plain == nil, "more came out than the bound allows")
    return prefixed
  }

  private static func roundTrip(
    _ value: [UInt8], _ dictionary: [UInt8], _ codec: FuzzedCodec
  ) throws(Finding) {
    let compress = codec.compressor()
    let share = codec.sharingCompressor(dictionary)
    // Twice: the second run begins with the state of the first run.
    for _ in 0..<2 {
      if let plain = compress(value) {
        try require(plain.count <= value.count - value.count / 8, "an eighth was not saved")
        for other in FuzzedCodec.all {
          try require(
            other.decompressed(plain, value.count, nil) == value,
            "compressed and decompressed, it is something else")
          for wrong in [value.count - 1, value.count + 1] {
            try require(
              other.decompressed(plain, wrong, nil) == nil, "a wrong raw length was believed")
          }
        }
      }
      guard let shared = share(value) else { continue }
      for other in FuzzedCodec.all {
        try require(
          other.decompressed(shared, value.count, dictionary) == value,
          "compressed with a dictionary, it is something else")
      }
    }
  }

  /// Returns whether a block has an offset of zero, or too few literals at its end. `liblz4` accepts
  /// some of these blocks.
  private static func breaksRules(_ block: [UInt8], _ length: Int) -> Bool {
    var rest = block[...]
    var written = 0
    func extended(_ nibble: UInt8) -> Int {
      var sum = Int(nibble)
      while nibble == 15, let byte = rest.popFirst() {
        sum += Int(byte)
        if byte != 255 { break }
      }
      return sum
    }
    while let token = rest.popFirst() {
      let literals = extended(token >> 4)
      rest = rest.dropFirst(literals)
      written += literals
      guard let low = rest.popFirst(), let high = rest.popFirst() else { return false }
      if low == 0 && high == 0 || written + 12 > length { return true }
      written += extended(token & 15) + 4
      if written + 5 > length { return true }
    }
    return false
  }
}
