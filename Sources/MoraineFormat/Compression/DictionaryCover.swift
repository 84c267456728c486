/// The choice of a dictionary's pieces from samples.
///
/// After Liao, Petri, Moffat and Wirth, "Effective Construction of Relative Lempel-Ziv
/// Dictionaries", WWW 2016: the worth of a piece is the sum of the frequencies of its short
/// substrings, and the substrings of a chosen piece are worth nothing from then on. Frequencies are
/// kept by hash, as in zstd's fastcover. Two things differ here. A substring counts once per
/// sample, because LZ4 finds repeats within a value without a dictionary. And each step chooses the
/// piece of greatest worth, instead of one piece from each stretch.
struct DictionaryCover: ~Copyable {
  // Measured: 6 and 192 are best for Debian's package records, and for small JSON documents.
  /// LZ4 searches matches by hashes of five bytes; a match itself takes three bytes.
  static let substringBytes = 6
  /// The longest piece. Shorter pieces cost references, and lose repeats across their ends.
  static let pieceBytes = 192
  /// The number of substrings in a piece of full length. A shorter piece has one fewer for every
  /// byte.
  static let pieceSubstrings = pieceBytes - substringBytes + 1
  private static let tableBits = 17

  /// The number of samples that contain a substring, as precise as a small table allows.
  struct Slot {
    var frequency: UInt16 = 0
    /// Further bits of the substring's hash.
    var tag: UInt16 = 0
    /// While the samples are counted: the sample that was counted last. Afterwards: how often the
    /// present piece contains the substring.
    var mark: Int32 = 0
  }

  let samples: [SampleSet.Sample]
  /// The samples, and eight more bytes, so that a word can be read at each place.
  let bytes: [UInt8]
  let table: UnsafeMutableBufferPointer<Slot>
  /// The slot of each substring of the present piece; -1 where the substring is worth nothing.
  let slots: UnsafeMutableBufferPointer<Int32>

  init(_ set: SampleSet) {
    // Shorter samples have no substring.
    samples = set.samples.filter { !$0.isHeldOut && $0.range.count >= Self.substringBytes }
    bytes = set.bytes + repeatElement(0, count: 8)
    table = .allocate(capacity: 1 << Self.tableBits)
    table.initialize(repeating: Slot())
    slots = .allocate(capacity: Self.pieceBytes + Self.pieceSubstrings)
    slots.initialize(repeating: -1)
  }

  deinit {
    table.deallocate()
    slots.deallocate()
  }

  /// Counts for each substring the samples that contain it.
  ///
  /// Of the substrings that share a slot, the most frequent one stays if it is frequent enough:
  /// each other one lowers its count (Misra and Gries, "Finding repeated elements", 1982).
  func count(_ bytes: UnsafeRawBufferPointer) {
    for (number, sample) in samples.enumerated() {
      let mark = Int32(truncatingIfNeeded: number)
      for place in Self.substrings(of: sample) {
        let (index, tag) = Self.hash(bytes, at: place)
        var slot = table[index]
        if slot.frequency == 0 {
          slot = Slot(frequency: 1, tag: tag, mark: mark)
        } else if slot.tag != tag {
          slot.frequency -= 1
        } else if slot.mark != mark {
          slot.mark = mark
          if slot.frequency < .max { slot.frequency += 1 }
        } else {
          continue
        }
        table[index] = slot
      }
    }
    for index in table.indices { table[index].mark = 0 }
  }

  /// Returns how many other samples contain the substring at `place`; 0 once a chosen piece
  /// contains it.
  @inline(__always)
  func worth(_ bytes: UnsafeRawBufferPointer, at place: Int) -> (worth: Int, index: Int) {
    let (index, tag) = Self.hash(bytes, at: place)
    let slot = table[index]
    return (slot.tag == tag && slot.frequency > 1 ? Int(slot.frequency) - 1 : 0, index)
  }

  /// The places where a substring of a sample begins.
  static func substrings(of sample: SampleSet.Sample) -> Range<Int> {
    sample.range.lowerBound..<(sample.range.upperBound - substringBytes + 1)
  }

  @inline(__always)
  private static func hash(
    _ bytes: UnsafeRawBufferPointer, at place: Int
  ) -> (index: Int, tag: UInt16) {
    let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self))
    let hash = word &<< UInt64(64 - 8 * substringBytes) &* 0xCF1B_BCDC_BF9B_4D35
    return (
      Int(truncatingIfNeeded: hash &>> UInt64(64 - tableBits)),
      UInt16(truncatingIfNeeded: hash &>> UInt64(48 - tableBits))
    )
  }
}
