/// The ratios between engines, for the table and the charts.
extension Report {
  /// Returns whether the engine is Moraine: its actor, its snapshots, its readers or its ordered
  /// keyspaces.
  static func isMoraine(_ engine: String) -> Bool {
    ["moraine", "snapshot", "reader", "ordered"].contains(engine)
  }

  /// Returns whether the engine does the work of the row. The harness alone does nothing, so it is
  /// neither the best of a row nor a peer.
  static func isRanked(_ engine: String) -> Bool { engine != "harness" }

  static func isPeer(_ engine: String) -> Bool { isRanked(engine) && !isMoraine(engine) }

  /// Returns the median of the engine's figures in the row, or nil where it has none.
  func median(_ engine: String, _ row: String) -> Double? {
    figure(engine, row)?.median
  }

  /// Returns Moraine's figure that is compared with the peers': the actor's, or in rows of ordered
  /// keys that of the ordered keyspace.
  func ours(_ row: String) -> Double? { median("moraine", row) ?? median("ordered", row) }

  /// Returns whether a round differed from the median by more than a fifth of it.
  func isUnsteady(_ engine: String, _ row: String) -> Bool {
    guard let figure = figure(engine, row) else { return false }
    let median = figure.median
    return figure.values.contains { abs($0 - median) > 0.2 * abs(median) }
  }

  /// Returns how many times as good as the peer Moraine is. Above 1, Moraine is ahead.
  func ratio(to peer: String, _ row: Row) -> Double? {
    guard let ours = ours(row.name), let theirs = median(peer, row.name),
      ours > 0, theirs > 0
    else { return nil }
    let ratio = row.lessIsBetter ? theirs / ours : ours / theirs
    return ratio.isFinite && ratio > 0 ? ratio : nil
  }

  /// Returns the peer that is closest to Moraine, or furthest ahead of it.
  func bestPeer(_ row: Row) -> (engine: String, ratio: Double)? {
    engines.filter { Report.isPeer($0.name) }
      .compactMap { peer in ratio(to: peer.name, row).map { (engine: peer.name, ratio: $0) } }
      .min { $0.ratio < $1.ratio }
  }

  /// Returns the best figure of the row, Moraine's or another engine's.
  func best(_ row: Row) -> Double? {
    let medians = engines.filter { Report.isRanked($0.name) }.compactMap {
      median($0.name, row.name)
    }
    return row.lessIsBetter ? medians.min() : medians.max()
  }

  private func figure(_ engine: String, _ row: String) -> Figure? {
    figures.first {
      $0.engine == engine && $0.row == row && !$0.values.isEmpty
        && $0.values.allSatisfy(\.isFinite)
    }
  }
}
