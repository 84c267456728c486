/// Chooses the pieces of a dictionary from samples.
///
/// After Liao, Petri, Moffat and Wirth, "Effective Construction of Relative Lempel-Ziv
/// Dictionaries", WWW 2016: a piece is worth the sum of the frequencies of its short substrings,
/// and what a chosen piece holds is worth nothing from then on. Frequencies are kept by hash, as
/// zstd's fastcover does. Here a substring counts once per sample, because LZ4 finds repeats within
/// a value by itself, and the piece worth most is chosen anew each time, instead of one from each
/// stretch.
struct DictionaryCover: ~Copyable {
  // Measured: 6 and 192 are best for Debian's package records, and for small JSON documents.
  /// LZ4 looks for matches by hashes of five bytes; a match takes three itself.
  static let substringBytes = 6
  /// The longest piece. Shorter ones cost references, and lose what stands across their ends.
  static let pieceBytes = 192
  /// A piece has one substring fewer than this for every place it is longer.
  static let pieceSubstrings = pieceBytes - substringBytes + 1
  private static let tableBits = 17

  /// How many samples hold a substring, as far as a small table can tell.
  struct Slot {
    var frequency: UInt16 = 0
    /// More of the substring's hash.
    var tag: UInt16 = 0
    /// While counting, the sample that was last counted; then, how often the present piece holds
    /// the substring.
    var mark: Int32 = 0
  }

  let samples: [SampleSet.Sample]
  /// The samples and eight bytes, so that a word can be read at each place.
  let bytes: [UInt8]
  let table: UnsafeMutableBufferPointer<Slot>
  /// Of the present piece: the slot of each substring, -1 where it is worth nothing.
  let slots: UnsafeMutableBufferPointer<Int32>

  init(_ set: SampleSet) {
    // Shorter ones have no substring.
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

  /// Counts for each substring the samples that hold it.
  ///
  /// Of substrings that share a slot the most frequent one stays, if it is frequent enough: each of
  /// the others lowers its count (Misra and Gries, "Finding repeated elements", 1982).
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

  /// How many samples beside its own hold the substring at `place`, as long as no piece does.
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
