/// An LZ4 block that a test puts together, sequence by sequence.
struct BlockByHand {
  private(set) var bytes: [UInt8] = []

  /// Appends literals and a match.
  mutating func append(_ literals: [UInt8], offset: Int, length: Int) {
    let more = length - 4
    bytes.append(UInt8(min(literals.count, 15) << 4 | min(more, 15)))
    appendRest(of: literals.count)
    bytes += literals
    bytes += [UInt8(offset & 0xFF), UInt8(offset >> 8)]
    appendRest(of: more)
  }

  /// Appends the last sequence.
  mutating func end(_ literals: [UInt8]) {
    bytes.append(UInt8(min(literals.count, 15) << 4))
    appendRest(of: literals.count)
    bytes += literals
  }

  private mutating func appendRest(of length: Int) {
    guard length >= 15 else { return }
    bytes += Array(repeating: 255, count: (length - 15) / 255)
    bytes.append(UInt8((length - 15) % 255))
  }

  /// Returns the contents of a block: each byte is copied by itself, as the description of the
  /// format says. Returns nil when the block contradicts itself, or breaks the rules of the end.
  static func contents(of block: [UInt8], dictionary: [UInt8]) -> [UInt8]? {
    var output = dictionary
    var match = Int.min...Int.min
    var rest = block[...]
    func length(_ nibble: UInt8) -> Int? {
      var sum = Int(nibble)
      guard nibble == 15 else { return sum }
      while let byte = rest.popFirst() {
        sum += Int(byte)
        if byte != 255 { return sum }
      }
      return nil
    }
    while let token = rest.popFirst() {
      guard let literals = length(token >> 4), literals <= rest.count else { return nil }
      output += rest.prefix(literals)
      rest = rest.dropFirst(literals)
      if rest.isEmpty {
        // Of an empty value the token is zero, too.
        if output.count == dictionary.count { return token == 0 ? [] : nil }
        let isAllowed =
          match.lowerBound == Int.min
          || match.upperBound + 5 <= output.count && match.lowerBound + 12 <= output.count
        return isAllowed ? Array(output.dropFirst(dictionary.count)) : nil
      }
      guard rest.count >= 2, let low = rest.popFirst(), let high = rest.popFirst(),
        let more = length(token & 15)
      else { return nil }
      let offset = Int(low) | Int(high) << 8
      guard offset > 0, offset <= output.count, more < 1 << 20 else { return nil }
      match = output.count...(output.count + more + 4)
      for _ in 0..<more + 4 { output.append(output[output.count - offset]) }
    }
    return nil
  }
}
