/// Who is how far ahead: what the table and the charts are made of.
extension Report {
  /// Moraine itself, or Moraine in another way: its snapshots.
  static func isMoraine(_ engine: String) -> Bool {
    engine == "moraine" || engine == "snapshot"
  }

  /// Whether it does the work that the row is about: the harness by itself does nothing, and is
  /// neither the best of a row nor anybody's peer.
  static func isRanked(_ engine: String) -> Bool { engine != "harness" }

  static func isPeer(_ engine: String) -> Bool { isRanked(engine) && !isMoraine(engine) }

  /// The median of what the engine reached in the row; nil where it has no figure.
  func median(_ engine: String, _ row: String) -> Double? {
    figure(engine, row)?.median
  }

  /// Whether a round was more than a fifth of the median away from it.
  func isUnsteady(_ engine: String, _ row: String) -> Bool {
    guard let figure = figure(engine, row) else { return false }
    let median = figure.median
    return figure.values.contains { abs($0 - median) > 0.2 * abs(median) }
  }

  /// How many times as good as the peer Moraine is: above 1, it is ahead.
  func ratio(to peer: String, _ row: Row) -> Double? {
    guard let ours = median("moraine", row.name), let theirs = median(peer, row.name),
      ours > 0, theirs > 0
    else { return nil }
    let ratio = row.lessIsBetter ? theirs / ours : ours / theirs
    return ratio.isFinite && ratio > 0 ? ratio : nil
  }

  /// The peer that comes closest to Moraine, or is furthest ahead of it.
  func bestPeer(_ row: Row) -> (engine: String, ratio: Double)? {
    engines.filter { Report.isPeer($0.name) }
      .compactMap { peer in ratio(to: peer.name, row).map { (engine: peer.name, ratio: $0) } }
      .min { $0.ratio < $1.ratio }
  }

  /// The best of the row, Moraine or not.
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
