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

extension DictionaryCover {
  /// The approximate number of sample bytes in which pieces are searched. More would take too long,
  /// and frequent substrings occur in these bytes too.
  private static let candidateBytes = 3 << 15
  /// A piece is left out unless its worth exceeds this fraction of the samples' bytes: one in
  /// 20,000.
  private static let leastShare = 20_000

  /// Returns the pieces of greatest worth, the best of them last, because LZ4 keeps the last of the
  /// places that have the same hash. Therefore an end of this dictionary is a good one too.
  ///
  /// - Returns: at most `limit` bytes; fewer when no further substring repeats.
  func dictionary(limit: Int) -> [UInt8] {
    bytes.withUnsafeBytes { bytes in
      count(bytes)
      let leastWorth = bytes.count / Self.leastShare
      var candidates = candidates(bytes, leastWorth: leastWorth)
      var pieces: [Range<Int>] = []
      var length = 0
      while length < limit, var candidate = candidates.popLargest() {
        let piece = bestPiece(of: candidate, in: bytes)
        candidate.worth = piece.worth
        guard piece.worth > leastWorth else { continue }
        // When another candidate may be worth more than the rest of this one, it is examined first.
        if candidate.worth >= candidates.largest?.worth ?? 0 {
          pieces.append(take(piece.places, in: bytes))
          length += pieces[pieces.count - 1].count
        }
        candidates.push(candidate)
      }
      let dictionary = pieces.reversed().flatMap { bytes[$0] }
      return Array(dictionary.suffix(limit))
    }
  }

  /// Returns stretches of places where pieces can begin, each with an upper bound of their worth.
  private func candidates(_ bytes: UnsafeRawBufferPointer, leastWorth: Int) -> CandidateHeap {
    var heap = CandidateHeap()
    var worths: [Int] = []
    let sampleBytes = samples.reduce(0) { $0 + $1.range.count }
    let step = (sampleBytes + Self.candidateBytes - 1) / Self.candidateBytes
    for number in stride(from: 0, to: samples.count, by: max(step, 1)) {
      let places = Self.substrings(of: samples[number])
      worths.removeAll(keepingCapacity: true)
      for place in places { worths.append(worth(bytes, at: place).worth) }
      for start in stride(from: 0, to: worths.count, by: Self.pieceBytes) {
        let end = min(start + Self.pieceBytes + Self.pieceSubstrings - 1, worths.count)
        var sum = 0
        var most = 0
        for place in start..<end {
          sum += worths[place]
          if place - start >= Self.pieceSubstrings { sum -= worths[place - Self.pieceSubstrings] }
          most = max(most, sum)
        }
        guard most > leastWorth else { continue }
        heap.append(
          CandidateHeap.Candidate(
            worth: most,
            places: (places.lowerBound + start)..<(places.lowerBound + end)))
      }
    }
    heap.order()
    return heap
  }

  /// Returns the piece of greatest worth within a stretch. Each of its substrings counts once.
  private func bestPiece(
    of candidate: CandidateHeap.Candidate, in bytes: UnsafeRawBufferPointer
  ) -> (places: Range<Int>, worth: Int) {
    let start = candidate.places.lowerBound
    let end = candidate.places.upperBound
    var sum = 0
    var best = 0
    var bestEnd = start
    for place in start..<end {
      let (worth, index) = worth(bytes, at: place)
      slots[place - start] = worth > 0 ? Int32(truncatingIfNeeded: index) : -1
      if worth > 0 {
        if table[index].mark == 0 { sum += worth }
        table[index].mark += 1
      }
      if place - start >= Self.pieceSubstrings {
        sum -= leave(slots[place - start - Self.pieceSubstrings])
      }
      if sum > best {
        best = sum
        bestEnd = place + 1
      }
    }
    for place in max(start, end - Self.pieceSubstrings)..<end { _ = leave(slots[place - start]) }
    return (max(start, bestEnd - Self.pieceSubstrings)..<bestEnd, best)
  }

  /// Removes a substring from the present piece.
  ///
  /// - Returns: by how much the worth of the piece falls.
  @inline(__always)
  private func leave(_ index: Int32) -> Int {
    guard index >= 0 else { return 0 }
    table[Int(index)].mark -= 1
    return table[Int(index)].mark == 0 ? Int(table[Int(index)].frequency) - 1 : 0
  }

  /// Cuts off the ends of a piece that are worth nothing, and makes its other substrings worth
  /// nothing.
  ///
  /// - Returns: the range of the piece's bytes.
  private func take(_ places: Range<Int>, in bytes: UnsafeRawBufferPointer) -> Range<Int> {
    var first = places.lowerBound
    var last = places.upperBound - 1
    while first < last, worth(bytes, at: first).worth == 0 { first += 1 }
    while first < last, worth(bytes, at: last).worth == 0 { last -= 1 }
    for place in first...last {
      let (worth, index) = worth(bytes, at: place)
      if worth > 0 { table[index].frequency = 0 }
    }
    return first..<(last + Self.substringBytes)
  }
}
