/// The search for the last object of a row of numbered objects that has no gaps and only grows.
///
/// Each request asks for one number. The distances double until an object is absent; then the
/// distance to that number is halved. So the number of requests is logarithmic in the number of
/// objects above the known one.
package struct Gallop: Hashable, Sendable {
  /// The highest number that is known to exist. Zero, or the number before the row, exists.
  package private(set) var found: UInt64
  /// The lowest number that was absent when it was asked for.
  private var absent: UInt64?
  private var stride: UInt64 = 1
  /// A number that may be near the end of the row. It is asked for first and not believed.
  private var hint: UInt64?

  package init(above found: UInt64, hint: UInt64 = 0) {
    self.found = found
    self.hint = hint > found ? hint : nil
  }

  /// The next number to ask for; nil when ``found`` was the last one.
  package var probe: UInt64? {
    if let hint { return hint }
    if let absent {
      assert(absent > found, "a number is absent below one that exists")
      let distance = absent - found
      return distance > 1 ? found + distance / 2 : nil
    }
    let room = UInt64.max - found
    return room > 0 ? found + min(stride, room) : nil
  }

  /// The next number to ask for, or the free number at the end of the row.
  package var probeOrEnd: UInt64 { probe ?? found + (found < .max ? 1 : 0) }

  /// Records that ``probeOrEnd`` exists.
  package mutating func recordExisting() {
    let isHint = hint != nil
    let wasEnd = probe == nil
    found = probeOrEnd
    hint = nil
    if wasEnd {
      // The object was created after it was absent: the search begins again above it.
      (absent, stride) = (nil, 1)
    } else if !isHint, absent == nil {
      stride = stride > .max / 2 ? .max : stride * 2
    }
  }

  /// Records that ``probeOrEnd`` is absent.
  package mutating func recordAbsent() {
    precondition(probe != nil, "the search has ended")
    absent = probe
    hint = nil
  }
}
