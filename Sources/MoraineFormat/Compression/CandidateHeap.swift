/// The stretches in which to search a piece of a dictionary, the one of greatest worth on top.
///
/// A binary heap, because Swift's library has none.
struct CandidateHeap {
  struct Candidate {
    /// An upper bound of the worth. It was exact when the candidate was last examined.
    var worth: Int
    /// The places of the substrings that the piece may contain.
    var places: Range<Int>

    /// Returns whether this candidate comes first. Of two equal candidates the one with the lower
    /// place does, so that the result does not depend on the heap.
    func precedes(_ other: Candidate) -> Bool {
      worth != other.worth
        ? worth > other.worth : places.lowerBound < other.places.lowerBound
    }
  }

  private var items: [Candidate] = []

  var largest: Candidate? { items.first }

  /// Adds a candidate without ordering the heap. Call ``order`` afterwards.
  mutating func append(_ candidate: Candidate) { items.append(candidate) }

  /// - Complexity: O(n).
  mutating func order() {
    for index in items.indices.reversed() { sink(from: index) }
  }

  /// - Complexity: O(log n).
  mutating func push(_ candidate: Candidate) {
    items.append(candidate)
    var index = items.count - 1
    while index > 0, items[index].precedes(items[(index - 1) / 2]) {
      items.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  /// - Complexity: O(log n).
  mutating func popLargest() -> Candidate? {
    guard let largest = items.first else { return nil }
    items.swapAt(0, items.count - 1)
    items.removeLast()
    sink(from: 0)
    return largest
  }

  private mutating func sink(from start: Int) {
    var index = start
    while true {
      var top = index
      for child in (2 * index + 1)...(2 * index + 2)
      where child < items.count && items[child].precedes(items[top]) { top = child }
      guard top != index else { return }
      items.swapAt(top, index)
      index = top
    }
  }
}
