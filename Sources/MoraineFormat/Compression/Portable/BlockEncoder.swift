/// An encoder of LZ4 blocks, written after the description of the format, `lz4_Block_format.md`.
///
/// It takes the first match that it finds. A table names the last place of each sequence of five
/// bytes, as far as it has room. The same input gives the same block, whatever was compressed
/// before. Input and output are spans, which check every access.
struct BlockEncoder: ~Copyable {
  /// 16 KiB: a larger table finds more, and takes room in the cache from everything else.
  private static let tableBits: UInt64 = 12
  private static let longestOffset = 65_535
  /// After this number of attempts without a match, as a power of two, the distance between
  /// attempts grows by one.
  private static let patienceBits = 6
  /// The output needs room for this number of bytes more than the block may have.
  static let slackBytes = 16

  private var table = [UInt32](repeating: 0, count: 1 << tableBits)
  /// The number of the next value's first byte in the table. All lower numbers are places of
  /// earlier values, so the table is not cleared for each value.
  var nextNumber: UInt32

  /// - Parameter firstNumber: the number of the first value's first byte in the table.
  init(firstNumber: UInt32 = 1) { nextNumber = firstNumber }

  /// The places where a match may begin and end.
  private struct Limits {
    let lastStart: Int
    let end: Int

    init(_ count: Int) {
      lastStart = count &- LZ4Block.lastMatchDistance
      end = count &- LZ4Block.lastLiterals
    }
  }

  private struct Match {
    var start: Int
    var length: Int
    var offset: Int
  }

  /// Encodes a value without a dictionary. Returns the length of the block, or nil when it would be
  /// longer than `most`.
  ///
  /// - Parameter output: `most` and ``slackBytes``, or more.
  /// - Complexity: O(input).
  mutating func encode(
    _ input: RawSpan, into output: UnsafeMutableRawBufferPointer, most: Int, acceleration: Int
  ) -> Int? {
    prepare(input.byteCount)
    defer { nextNumber &+= UInt32(input.byteCount) }
    return Self.encode(
      input, into: output, most: most, table: &table, base: nextNumber, acceleration: acceleration
    ) { _, _, _, _ in nil }
  }

  /// Encodes a value as if the dictionary stood before it.
  mutating func encode(
    _ input: RawSpan, into output: UnsafeMutableRawBufferPointer, most: Int,
    dictionary: borrowing BlockDictionary
  ) -> Int? {
    prepare(input.byteCount)
    defer { nextNumber &+= UInt32(input.byteCount) }
    let bytes = dictionary.bytes.span.bytes
    let places = dictionary.places.span
    return Self.encode(
      input, into: output, most: most, table: &table, base: nextNumber, acceleration: 1
    ) { place, anchor, word, limits in
      let candidate = Int(places[BlockDictionary.slot(word)])
      let offset = place &+ bytes.byteCount &- candidate
      guard candidate <= bytes.byteCount &- 8, offset <= Self.longestOffset,
        bytes.load4(candidate) == UInt32(truncatingIfNeeded: word)
      else { return nil }
      let before = input.commonLength(before: place, least: anchor, with: candidate, in: bytes)
      var length = input.commonLength(place, end: limits.end, with: candidate, in: bytes)
      if length == bytes.byteCount &- candidate {
        // The match continues in the value's first bytes.
        length &+= input.commonLength(place &+ length, end: limits.end, with: 0, in: input)
      }
      return Match(start: place &- before, length: before &+ length, offset: offset)
    }
  }

  /// Clears the table when the numbers of its places do not suffice for the next value.
  private mutating func prepare(_ count: Int) {
    precondition(count <= UInt32.max / 2, "the value is too long")
    guard UInt32.max &- nextNumber < UInt32(count) else { return }
    table.withUnsafeMutableBufferPointer { $0.update(repeating: 0) }
    nextNumber = 1
  }

  @inline(__always)
  private static func encode(
    _ input: RawSpan, into memory: UnsafeMutableRawBufferPointer, most: Int,
    table: inout [UInt32], base: UInt32, acceleration: Int,
    matchInDictionary: (_ place: Int, _ anchor: Int, _ word: UInt64, _ limits: Limits) -> Match?
  ) -> Int? {
    var output = memory.mutableBytes
    var recent = table.mutableSpan
    let limits = Limits(input.byteCount)
    var anchor = 0
    var written = 0
    while anchor <= limits.lastStart {
      var found: Match?
      var place = anchor
      var attempts = acceleration &<< patienceBits
      while place <= limits.lastStart {
        let word = input.load8(place)
        let slot = slot(word)
        // A place of an earlier value becomes a number that is greater than each place of this one.
        let candidate = recent[slot] &- base
        recent[slot] = base &+ UInt32(truncatingIfNeeded: place)
        found = match(input, at: place, anchor: anchor, word, with: candidate, limits)
        if found == nil { found = matchInDictionary(place, anchor, word, limits) }
        if found != nil { break }
        // Repetition begins directly after the bytes that repeat.
        if place &- anchor < 2 {
          place &+= 1
        } else {
          place &+= attempts &>> patienceBits
          attempts &+= 1
        }
      }
      guard let found else { break }
      // A block needs the next sequence and the shortest possible last one.
      let least = 1 &+ LZ4Block.lastLiterals
      let literals = found.start &- anchor
      guard sequenceLength(literals, found) <= most &- written &- least else { return nil }
      output.putLiterals(input, from: anchor, literals, match: found.length, &written)
      output.putMatch(offset: found.offset, length: found.length, &written)
      anchor = found.start &+ found.length
      guard anchor <= limits.lastStart else { break }
      // One place within the match, for later matches.
      recent[slot(input.load8(anchor &- 2))] = base &+ UInt32(truncatingIfNeeded: anchor &- 2)
    }
    let literals = input.byteCount &- anchor
    guard 1 &+ literals &+ LZ4Block.extraBytes(literals) <= most &- written else { return nil }
    output.putLiterals(input, from: anchor, literals, match: LZ4Block.leastMatch, &written)
    return written
  }

  /// Returns the match with an earlier place of the input, or nil when there is none.
  @inline(__always)
  private static func match(
    _ input: RawSpan, at place: Int, anchor: Int, _ word: UInt64, with candidate: UInt32,
    _ limits: Limits
  ) -> Match? {
    guard candidate < UInt32(truncatingIfNeeded: place) else { return nil }
    let candidate = Int(candidate)
    guard place &- candidate <= longestOffset,
      input.load4(candidate) == UInt32(truncatingIfNeeded: word)
    else { return nil }
    let before = input.commonLength(before: place, least: anchor, with: candidate, in: input)
    let length =
      LZ4Block.leastMatch
      &+ input.commonLength(
        place &+ LZ4Block.leastMatch, end: limits.end, with: candidate &+ LZ4Block.leastMatch,
        in: input)
    return Match(start: place &- before, length: before &+ length, offset: place &- candidate)
  }

  @inline(__always)
  private static func sequenceLength(_ literals: Int, _ match: Match) -> Int {
    3 &+ literals &+ LZ4Block.extraBytes(literals)
      &+ LZ4Block.extraBytes(match.length &- LZ4Block.leastMatch)
  }

  @inline(__always)
  private static func slot(_ word: UInt64) -> Int {
    Int(truncatingIfNeeded: LZ4Block.hash(word) &>> (64 &- tableBits))
  }
}

/// A dictionary, and the places of the byte sequences in it.
struct BlockDictionary: ~Copyable {
  /// Number of the places that are kept, as a power of two.
  private static let tableBits: UInt64 = 14
  /// Every third place. More places take longer to load, and make some blocks longer: the encoder
  /// takes the last place of a sequence, which has not always the longest match.
  private static let step = 3

  let bytes: [UInt8]
  let places: [UInt16]

  /// - Parameter bytes: at most 65,536. No offset reaches the first byte of that number.
  /// - Complexity: O(bytes).
  init(_ bytes: [UInt8]) {
    precondition(bytes.count <= 1 << 16)
    // No match begins in the last eight bytes, so this is the place of nothing.
    var places = [UInt16](repeating: .max, count: 1 << Self.tableBits)
    let span = bytes.span.bytes
    for place in stride(from: 0, through: bytes.count - 8, by: Self.step) {
      places[Self.slot(span.load8(place))] = UInt16(place)
    }
    self.bytes = bytes
    self.places = places
  }

  @inline(__always)
  static func slot(_ word: UInt64) -> Int {
    Int(truncatingIfNeeded: LZ4Block.hash(word) &>> (64 &- tableBits))
  }
}

extension MutableRawSpan {
  /// Writes a token, the rest of the number of literals, and the literals. May write 15 bytes more.
  @inline(__always)
  fileprivate mutating func putLiterals(
    _ input: RawSpan, from anchor: Int, _ count: Int, match: Int, _ written: inout Int
  ) {
    let token = min(count, 15) &<< 4 | min(match &- LZ4Block.leastMatch, 15)
    store(UInt8(truncatingIfNeeded: token), at: written)
    written &+= 1
    putRest(of: count, &written)
    copyFreely(count, of: input, from: anchor, to: written)
    written &+= count
  }

  @inline(__always)
  fileprivate mutating func putMatch(offset: Int, length: Int, _ written: inout Int) {
    store(UInt16(truncatingIfNeeded: offset).littleEndian, at: written)
    written &+= 2
    putRest(of: length &- LZ4Block.leastMatch, &written)
  }

  /// Writes the bytes that continue a length of 15 or more.
  @inline(__always)
  private mutating func putRest(of length: Int, _ written: inout Int) {
    guard length >= 15 else { return }
    var rest = length &- 15
    while rest >= 255 {
      store(UInt8.max, at: written)
      written &+= 1
      rest &-= 255
    }
    store(UInt8(truncatingIfNeeded: rest), at: written)
    written &+= 1
  }
}
