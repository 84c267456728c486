// Loads, stores and copies of the LZ4 code in Swift. Every access checks the bounds of its span.
// The name of the standard library's loads begins with "unsafe" because some types do not allow
// every bit pattern: integers do.

extension RawSpan {
  @inline(__always)
  func byte(_ place: Int) -> UInt8 { unsafeLoad(fromByteOffset: place, as: UInt8.self) }

  @inline(__always)
  func load2(_ place: Int) -> UInt16 {
    UInt16(littleEndian: unsafeLoadUnaligned(fromByteOffset: place, as: UInt16.self))
  }

  @inline(__always)
  func load4(_ place: Int) -> UInt32 {
    UInt32(littleEndian: unsafeLoadUnaligned(fromByteOffset: place, as: UInt32.self))
  }

  @inline(__always)
  func load8(_ place: Int) -> UInt64 {
    UInt64(littleEndian: unsafeLoadUnaligned(fromByteOffset: place, as: UInt64.self))
  }

  @inline(__always)
  func load16(_ place: Int) -> SIMD16<UInt8> {
    unsafeLoadUnaligned(fromByteOffset: place, as: SIMD16<UInt8>.self)
  }

  /// Returns the number of equal bytes at two places, of which `other` may be in another span. It
  /// does not look at bytes from `end` on.
  @inline(__always)
  func commonLength(_ place: Int, end: Int, with other: Int, in span: RawSpan) -> Int {
    let most = min(end &- place, span.byteCount &- other)
    var length = 0
    while most &- length >= 8 {
      let difference = load8(place &+ length) ^ span.load8(other &+ length)
      if difference != 0 { return length &+ difference.trailingZeroBitCount &>> 3 }
      length &+= 8
    }
    while length < most, byte(place &+ length) == span.byte(other &+ length) { length &+= 1 }
    return length
  }

  /// Returns the number of equal bytes before two places, down to `least` and to the beginning of
  /// `span`.
  @inline(__always)
  func commonLength(before place: Int, least: Int, with other: Int, in span: RawSpan) -> Int {
    let most = min(place &- least, other)
    var length = 0
    while length < most, byte(place &- length &- 1) == span.byte(other &- length &- 1) {
      length &+= 1
    }
    return length
  }
}

extension MutableRawSpan {
  @inline(__always)
  func byte(_ place: Int) -> UInt8 { unsafeLoad(fromByteOffset: place, as: UInt8.self) }

  @inline(__always)
  func load8(_ place: Int) -> UInt64 {
    unsafeLoadUnaligned(fromByteOffset: place, as: UInt64.self)
  }

  @inline(__always)
  func load16(_ place: Int) -> SIMD16<UInt8> {
    unsafeLoadUnaligned(fromByteOffset: place, as: SIMD16<UInt8>.self)
  }

  @inline(__always)
  mutating func store<T: BitwiseCopyable>(_ value: T, at place: Int) {
    storeBytes(of: value, toByteOffset: place, as: T.self)
  }

  /// Copies `count` bytes of another span, and writes no others.
  @inline(__always)
  mutating func copy(_ count: Int, of source: RawSpan, from: Int, to: Int) {
    var done = 0
    while count &- done >= 16 {
      store(source.load16(from &+ done), at: to &+ done)
      done &+= 16
    }
    if done == count { return }
    if count >= 16 {
      // The last 16 bytes, of which some are written twice.
      store(source.load16(from &+ count &- 16), at: to &+ count &- 16)
      return
    }
    while done < count {
      store(source.byte(from &+ done), at: to &+ done)
      done &+= 1
    }
  }

  /// Copies `count` bytes of another span, and may write 15 more.
  @inline(__always)
  mutating func copyFreely(_ count: Int, of source: RawSpan, from: Int, to: Int) {
    guard source.byteCount &- from >= count &+ 15 else {
      copy(count, of: source, from: from, to: to)
      return
    }
    var done = 0
    while done < count {
      store(source.load16(from &+ done), at: to &+ done)
      done &+= 16
    }
  }

  /// Copies `count` bytes to a later place, and writes no others. Where the two ranges overlap, the
  /// bytes before `to` repeat.
  @inline(__always)
  mutating func copy(_ count: Int, from: Int, to: Int) {
    var source = from
    var place = to
    let end = to &+ count
    if to &- from < 8 {
      let period = to &- from
      let word = repeated(from: from, period: period).littleEndian
      let step = 8 &- 8 % period
      for _ in 0..<4 where end &- place >= 8 {
        store(word, at: place)
        place &+= step
      }
      // The copied bytes are a multiple of the period: they can be copied in turn.
      if place > to { source = to }
    }
    if place &- source >= 16 {
      while end &- place >= 16 {
        store(load16(source), at: place)
        source &+= 16
        place &+= 16
      }
    }
    if place &- source >= 8 {
      while end &- place >= 8 {
        store(load8(source), at: place)
        source &+= 8
        place &+= 8
      }
    }
    while place < end {
      store(byte(source), at: place)
      source &+= 1
      place &+= 1
    }
  }

  /// Returns the `period` bytes at a place, at most seven, repeated until they fill a word. The
  /// first byte is the lowest.
  @inline(__always)
  private func repeated(from place: Int, period: Int) -> UInt64 {
    var word: UInt64 = 0
    for number in 0..<period {
      word |= UInt64(byte(place &+ number)) &<< UInt64(8 &* number)
    }
    // Shifts by 64 and more give 0.
    word |= word << UInt64(8 &* period)
    word |= word << UInt64(16 &* period)
    return word | word << UInt64(32 &* period)
  }
}
