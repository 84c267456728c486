/// A command of `drive`'s protocol: the first word of a line. The help of `drive` describes each.
enum DriveVerb: String, CaseIterable {
  case put, putx, del, get, cas, getv, batch, scan, range, sync, clock, reap, compact, flush
  case checkpoint, stats, close

  /// The number of words that a line can have, with the verb.
  var wordCounts: ClosedRange<Int> {
    switch self {
    case .scan, .sync, .reap, .compact, .flush, .checkpoint, .stats, .close: 1...1
    case .del, .get, .getv, .batch, .clock: 2...2
    case .put: 3...3
    case .putx, .cas: 4...4
    case .range: 3...5
    }
  }

  /// The names of all commands, for the answer to a line with another one.
  static var list: String { allCases.map(\.rawValue).joined(separator: ", ") }
}
