/// A decoder of LZ4 blocks, written after the description of the format, `lz4_Block_format.md`. The
/// numbers that a block contains are checked here, and a block that contradicts itself is refused.
///
/// Input and output are spans, which check every access again: if a check here were missing, the
/// program would stop. It could not read or write other memory.
enum BlockDecoder {
  /// Decodes a block into all bytes of `memory` from `start` on. Returns false when `input` is not
  /// a block of exactly that length.
  ///
  /// The function reads no byte of `memory` from `start` on before it has written it, so the memory
  /// may be uninitialized there.
  ///
  /// - Parameters:
  ///   - memory: the bytes before `start` are history, which matches may copy.
  ///   - dictionary: the history before the first byte of `memory`.
  /// - Complexity: O(memory).
  static func decode(
    _ input: RawSpan, into memory: UnsafeMutableRawBufferPointer, from start: Int,
    dictionary: RawSpan
  ) -> Bool {
    // A local variable that no other function sees, so that the span stays in registers.
    var output = memory.mutableBytes
    let end = output.byteCount
    // An empty value is one token without literals.
    if start == end { return input.byteCount == 1 && input.byte(0) == 0 }
    var place = 0
    var written = start
    while place < input.byteCount {
      let token = Int(input.byte(place))
      place &+= 1
      var literals = token &>> 4
      if literals < 15, input.byteCount &- place >= 16, end &- written >= 28 {
        // The usual case: few literals. The bytes after them are overwritten later.
        output.store(input.load16(place), at: written)
        place &+= literals
        written &+= literals
      } else {
        if literals == 15 {
          guard let more = extend(input, &place, most: end &- written) else { return false }
          literals &+= more
        }
        guard literals <= input.byteCount &- place, literals <= end &- written else { return false }
        copy(literals, of: input, from: place, into: memory, at: written)
        place &+= literals
        written &+= literals
        if place == input.byteCount { return written == end }
        guard end &- written >= LZ4Block.lastMatchDistance else { return false }
      }
      guard input.byteCount &- place >= 2 else { return false }
      let offset = Int(input.load2(place))
      place &+= 2
      let room = end &- written
      var length = (token & 15) &+ LZ4Block.leastMatch
      if length == 15 &+ LZ4Block.leastMatch {
        guard let more = extend(input, &place, most: room) else { return false }
        length &+= more
      }
      if offset >= 16, offset <= written, length <= room &- 32 {
        // The usual case. Up to 31 bytes after the match are overwritten later.
        let from = written &- offset
        output.store(output.load16(from), at: written)
        output.store(output.load16(from &+ 16), at: written &+ 16)
        var done = 32
        while done < length {
          output.store(output.load16(from &+ done), at: written &+ done)
          done &+= 16
        }
      } else {
        guard offset > 0, length <= room &- LZ4Block.lastLiterals,
          offset <= written &+ dictionary.byteCount
        else { return false }
        copyMatch(length, offset: offset, in: memory, at: written, dictionary)
      }
      written &+= length
    }
    return false
  }

  @inline(never)
  private static func copy(
    _ count: Int, of input: RawSpan, from place: Int,
    into memory: UnsafeMutableRawBufferPointer, at written: Int
  ) {
    var output = memory.mutableBytes
    output.copy(count, of: input, from: place, to: written)
  }

  /// Copies a match that begins in the dictionary, is near the end, or repeats bytes at a short
  /// distance.
  @inline(never)
  private static func copyMatch(
    _ length: Int, offset: Int, in memory: UnsafeMutableRawBufferPointer, at written: Int,
    _ dictionary: RawSpan
  ) {
    var output = memory.mutableBytes
    guard offset > written else {
      output.copy(length, from: written &- offset, to: written)
      return
    }
    let beforeEnd = offset &- written
    let from = dictionary.byteCount &- beforeEnd
    if length <= 16, beforeEnd >= 16, output.byteCount &- written >= 16 {
      output.store(dictionary.load16(from), at: written)
      return
    }
    let part = min(length, beforeEnd)
    output.copy(part, of: dictionary, from: from, to: written)
    // The rest of the match is the beginning of the output.
    if part < length { output.copy(length &- part, from: 0, to: written &+ part) }
  }

  /// Returns the sum of the bytes that continue a length of 15, or nil when the input ends before
  /// the last of them, or the sum is greater than `most`.
  @inline(__always)
  private static func extend(_ input: RawSpan, _ place: inout Int, most: Int) -> Int? {
    var sum = 0
    while place < input.byteCount, sum <= most {
      let byte = input.byte(place)
      place &+= 1
      sum &+= Int(byte)
      if byte != 255 { return sum }
    }
    return nil
  }
}
