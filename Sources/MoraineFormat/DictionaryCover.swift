/// Chooses the pieces of a dictionary from samples.
///
/// After Liao, Petri, Moffat and Wirth, "Effective Construction of Relative Lempel-Ziv
/// Dictionaries", WWW 2016: a piece is worth the sum of the frequencies of its short substrings, and
/// once it is taken those are worth nothing. Frequencies are kept by hash, as in zstd's fastcover.
/// Here a substring counts once per sample, because LZ4 finds repeats within a value by itself; and
/// pieces are taken greedily over all samples, the worth of each bounded by what it last was.
struct DictionaryCover: ~Copyable {
  /// LZ4 finds matches by hashes of five bytes; a longer match saves more than its reference costs.
  static let substringBytes = 6
  static let pieceBytes = 48
  static let tableBits = 17
  static let growDivisor: UInt32 = 2
  static let longestPieceBytes = 192

  private typealias Candidate = CandidateHeap.Candidate

  /// How many samples hold a substring, as far as a small table can tell.
  private struct Slot {
    var frequency: UInt16 = 0
    var tag: UInt16 = 0
    /// The last sample, plus one, that was counted; then how often the present piece holds it.
    var mark: UInt32 = 0
  }

  private let samples: SampleSet
  private let table: UnsafeMutableBufferPointer<Slot>

  init(_ samples: SampleSet) {
    self.samples = samples
    table = .allocate(capacity: 1 << Self.tableBits)
    table.initialize(repeating: Slot())
  }

  deinit { table.deallocate() }

  /// The pieces worth most, the best last: LZ4 keeps the last of the places with the same hash.
  ///
  /// - Returns: at most `limit` bytes; fewer when nothing more repeats.
  func dictionary(limit: Int) -> [UInt8] {
    var bytes = samples.bytes
    bytes.append(contentsOf: repeatElement(0, count: SampleSet.paddingBytes))
    return bytes.withUnsafeBytes { bytes in
      count(bytes)
      var heap = candidates(bytes)
      var pieces: [Range<Int>] = []
      var length = 0
      while length < limit, let candidate = heap.popLargest() {
        let (piece, worth) = bestPiece(of: candidate, in: bytes)
        guard worth > 0 else { continue }
        // Others may be worth more by now than what is left of this one.
        if let next = heap.largest, worth < next.worth {
          heap.push(Candidate(worth: worth, start: candidate.start, limit: candidate.limit))
          continue
        }
        let taken = take(piece, worth: worth, limit: candidate.limit, in: bytes)
        pieces.append(taken)
        length += taken.count
        heap.push(Candidate(worth: worth, start: candidate.start, limit: candidate.limit))
      }
      var dictionary: [UInt8] = []
      dictionary.reserveCapacity(length)
      for piece in pieces.reversed() { dictionary.append(contentsOf: bytes[piece]) }
      return Array(dictionary.suffix(limit))
    }
  }

  private func count(_ bytes: UnsafeRawBufferPointer) {
    for sample in 0..<samples.count where !SampleSet.isHeldOut(sample) {
      let range = samples.range(sample)
      guard range.count >= Self.substringBytes else { continue }
      let mark = UInt32(sample + 1)
      for place in range.lowerBound...(range.upperBound - Self.substringBytes) {
        let (index, tag) = Self.hash(bytes, at: place)
        var slot = table[index]
        if slot.tag == tag, slot.frequency > 0 {
          guard slot.mark != mark else { continue }
          slot.mark = mark
          if slot.frequency < .max { slot.frequency += 1 }
        } else if slot.frequency == 0 {
          slot = Slot(frequency: 1, tag: tag, mark: mark)
        } else {
          // Two share the slot: the more frequent one stays.
          slot.frequency -= 1
        }
        table[index] = slot
      }
    }
    for index in table.indices { table[index].mark = 0 }
  }

  /// Every stretch of ``pieceBytes`` first places, with what a piece from there is worth at most.
  private func candidates(_ bytes: UnsafeRawBufferPointer) -> CandidateHeap {
    var heap = CandidateHeap()
    var worths: [UInt32] = []
    let width = Self.pieceBytes - Self.substringBytes + 1
    for sample in 0..<samples.count where !SampleSet.isHeldOut(sample) {
      let range = samples.range(sample)
      guard range.count >= Self.substringBytes else { continue }
      worths.removeAll(keepingCapacity: true)
      for place in range.lowerBound...(range.upperBound - Self.substringBytes) {
        worths.append(worth(bytes, at: place).worth)
      }
      var sum: UInt32 = 0
      var most: UInt32 = 0
      var start = 0
      for place in worths.indices {
        sum += worths[place]
        if place >= width { sum -= worths[place - width] }
        most = max(most, sum)
        // The last window that begins in this stretch ends here.
        if place + 1 == start + Self.pieceBytes + width - 1 || place + 1 == worths.count {
          if most > 0 {
            heap.append(
              Candidate(
                worth: most, start: UInt32(range.lowerBound + start),
                limit: UInt32(range.upperBound)))
          }
          start += Self.pieceBytes
          most = sum
        }
      }
    }
    heap.order()
    return heap
  }

  /// The piece worth most of those that begin in a stretch, each substring of it counted once.
  private func bestPiece(
    of candidate: Candidate, in bytes: UnsafeRawBufferPointer
  ) -> (Range<Int>, worth: UInt32) {
    let start = Int(candidate.start)
    let width = Self.pieceBytes - Self.substringBytes + 1
    let last = Int(candidate.limit) - Self.substringBytes
    let end = min(last, start + Self.pieceBytes + width - 2)
    var sum: UInt32 = 0
    var best: UInt32 = 0
    var bestEnd = start
    var tail = start
    for place in start...end {
      let (worth, index) = worth(bytes, at: place)
      if worth > 0 {
        if table[index].mark == 0 { sum += worth }
        table[index].mark += 1
      }
      if place - tail == width {
        leave(tail, &sum, bytes)
        tail += 1
      }
      if sum > best {
        best = sum
        bestEnd = place
      }
    }
    for place in tail...end { leave(place, &sum, bytes) }
    let first = max(start, bestEnd - width + 1)
    return (first..<(bestEnd + Self.substringBytes), best)
  }

  private func leave(_ place: Int, _ sum: inout UInt32, _ bytes: UnsafeRawBufferPointer) {
    let (worth, index) = worth(bytes, at: place)
    guard worth > 0 else { return }
    table[index].mark -= 1
    if table[index].mark == 0 { sum -= worth }
  }

  /// Cuts off the ends of a piece that are worth nothing, and makes it longer where what follows is
  /// worth about as much; what it holds is worth nothing from now on.
  private func take(
    _ piece: Range<Int>, worth total: UInt32, limit: UInt32, in bytes: UnsafeRawBufferPointer
  ) -> Range<Int> {
    var first = piece.lowerBound
    var last = piece.upperBound - Self.substringBytes
    while first < last, worth(bytes, at: first).worth == 0 { first += 1 }
    while first < last, worth(bytes, at: last).worth == 0 { last -= 1 }
    let enough = total / UInt32(last - first + 1) / Self.growDivisor
    for place in first...last { forget(bytes, at: place) }
    while last + 1 + Self.substringBytes <= Int(limit), last - first < Self.longestPieceBytes {
      let next = worth(bytes, at: last + 1).worth
      guard next > 0, next >= enough else { break }
      last += 1
      forget(bytes, at: last)
    }
    return first..<(last + Self.substringBytes)
  }

  private func forget(_ bytes: UnsafeRawBufferPointer, at place: Int) {
    let (worth, index) = worth(bytes, at: place)
    if worth > 0 { table[index].frequency = 0 }
  }

  /// How many samples beside its own hold the substring that begins here.
  @inline(__always)
  private func worth(
    _ bytes: UnsafeRawBufferPointer, at place: Int
  ) -> (worth: UInt32, index: Int) {
    let (index, tag) = Self.hash(bytes, at: place)
    let slot = table[index]
    return (slot.tag == tag && slot.frequency > 1 ? UInt32(slot.frequency) - 1 : 0, index)
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

/// First places of pieces, the one worth most on top.
struct CandidateHeap {
  struct Candidate {
    var worth: UInt32
    var start: UInt32
    /// Where its sample ends.
    var limit: UInt32
  }
  private var items: [Candidate] = []

  var largest: Candidate? { items.first }

  /// To be followed by ``order``.
  mutating func append(_ candidate: Candidate) { items.append(candidate) }

  mutating func order() {
    for index in items.indices.reversed() { sink(index) }
  }

  mutating func push(_ candidate: Candidate) {
    items.append(candidate)
    var index = items.count - 1
    while index > 0, Self.precedes(items[index], items[(index - 1) / 2]) {
      items.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  mutating func popLargest() -> Candidate? {
    guard let largest = items.first else { return nil }
    items.swapAt(0, items.count - 1)
    items.removeLast()
    sink(0)
    return largest
  }

  private mutating func sink(_ start: Int) {
    var index = start
    while true {
      var top = index
      for child in [2 * index + 1, 2 * index + 2]
      where child < items.count && Self.precedes(items[child], items[top]) { top = child }
      guard top != index else { return }
      items.swapAt(top, index)
      index = top
    }
  }

  /// Ties go to what came first, so that the result does not depend on the heap.
  private static func precedes(_ one: Candidate, _ other: Candidate) -> Bool {
    one.worth != other.worth ? one.worth > other.worth : one.start < other.start
  }
}
