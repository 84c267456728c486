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
