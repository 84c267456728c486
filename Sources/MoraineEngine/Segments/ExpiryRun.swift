/// The records of one segment that expire, the earliest first.
///
/// The records of a segment keep their offsets as long as the segment exists. So an entry is added
/// once, and no other change of the store touches it: not the compaction that copies the record,
/// and not the write that replaces it. An entry whose record is no longer live is left out when its
/// time has come. The run is a binary heap with 12 bytes for a record.
struct ExpiryRun {
  private var times: [UInt64] = []
  private var offsets: [UInt32] = []
  /// The records before this offset are not in the run yet: an index checkpoint covers them, and
  /// opening did not read them.
  var unreadEnd = 0
  /// After a damaged record has ended the reading: a time before which no record of the segment
  /// expires.
  var damageFloor = UInt64.max

  var count: Int { times.count }

  /// The earliest time; nil when the run is empty.
  var earliest: UInt64? { times.first }

  /// Adds a record. Complexity: O(log n), and O(1) for a record that expires after most others.
  mutating func add(_ time: UInt64, _ offset: Int) {
    times.append(time)
    offsets.append(UInt32(truncatingIfNeeded: offset))
    var child = times.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard times[child] < times[parent] else { return }
      swap(child, parent)
      child = parent
    }
  }

  /// Removes the earliest record if its time has come.
  ///
  /// - Returns: its time and its offset.
  mutating func popExpired(through time: UInt64) -> (time: UInt64, offset: Int)? {
    guard let first = times.first, first <= time else { return nil }
    let result = (first, Int(offsets[0]))
    swap(0, times.count - 1)
    times.removeLast()
    offsets.removeLast()
    sink()
    return result
  }

  private mutating func sink() {
    var parent = 0
    while true {
      var least = parent
      for child in [2 * parent + 1, 2 * parent + 2] where child < times.count {
        if times[child] < times[least] { least = child }
      }
      if least == parent { return }
      swap(parent, least)
      parent = least
    }
  }

  private mutating func swap(_ one: Int, _ other: Int) {
    times.swapAt(one, other)
    offsets.swapAt(one, other)
  }

  /// Returns the offsets of the records whose time has come.
  ///
  /// - Complexity: O(these records).
  func expired(through time: UInt64) -> [Int] {
    var result: [Int] = []
    var places = [0]
    while let place = places.popLast() {
      guard place < times.count, times[place] <= time else { continue }
      result.append(Int(offsets[place]))
      places.append(2 * place + 1)
      places.append(2 * place + 2)
    }
    return result
  }
}
