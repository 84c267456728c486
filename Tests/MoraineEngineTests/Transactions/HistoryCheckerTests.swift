import MoraineTesting
import Testing

/// The checker finds each anomaly in a history that has it.
@Suite struct HistoryCheckerTests {
  private typealias Committed = HistoryChecker.Committed

  private func problems(
    _ history: [HistoryChecker.Committed], _ final: [String: [UInt32]]
  ) -> [String] {
    HistoryChecker.problems(history, final: final)
  }

  private func transaction(
    _ id: UInt32, reads: [String: [UInt32]] = [:], appends: Set<String> = [],
    _ moments: ClosedRange<Int> = 0...100
  ) -> Committed {
    Committed(
      id: id, reads: reads, appends: appends, began: moments.lowerBound, ended: moments.upperBound)
  }

  @Test func serialHistoryHasNoProblem() {
    let history = [
      transaction(1, reads: ["x": []], appends: ["x"]),
      transaction(2, reads: ["x": [1], "y": []], appends: ["y"]),
      transaction(3, reads: ["x": [1], "y": [2]], appends: ["x", "y"]),
    ]
    #expect(problems(history, ["x": [1, 3], "y": [2, 3]]).isEmpty)
  }

  @Test func everyAnomalyIsFound() {
    func name(_ history: [HistoryChecker.Committed], _ final: [String: [UInt32]]) -> String {
      String(problems(history, final).first?.prefix { $0 != ":" } ?? "none")
    }
    // Two writes in different orders.
    let both = [transaction(1, appends: ["x", "y"]), transaction(2, appends: ["x", "y"])]
    #expect(name(both, ["x": [1, 2], "y": [2, 1]]) == "G0")
    // A write of a transaction that was not committed.
    #expect(name([transaction(1, appends: ["x"])], ["x": [7, 1]]) == "G1a")
    // Each has read what the other one has written.
    let mutual = [
      transaction(1, reads: ["y": [2]], appends: ["x"]),
      transaction(2, reads: ["x": [1]], appends: ["y"]),
    ]
    #expect(name(mutual, ["x": [1], "y": [2]]) == "G1c")
    // Read skew: one list before a transaction, another one after it.
    let skew = [
      transaction(1, appends: ["x", "y"]), transaction(2, reads: ["x": [], "y": [1]]),
    ]
    #expect(name(skew, ["x": [1], "y": [1]]) == "G-single")
    // Write skew.
    let writes = [
      transaction(1, reads: ["x": [], "y": []], appends: ["x"]),
      transaction(2, reads: ["x": [], "y": []], appends: ["y"]),
    ]
    #expect(name(writes, ["x": [1], "y": [2]]) == "G2")
    // A lost update.
    let lost = [
      transaction(1, reads: ["x": []], appends: ["x"]),
      transaction(2, reads: ["x": []], appends: ["x"]),
    ]
    #expect(name(lost, ["x": [2]]) == "lost")
    #expect(name(lost, ["x": [1, 2]]) == "G-single")
    // A read that does not see what was committed before it began.
    let stale = [transaction(1, appends: ["x"], 0...5), transaction(2, reads: ["x": []], 6...9)]
    #expect(name(stale, ["x": [1]]) == "G-single")
  }

  /// Regression: the second read of a list replaced the first one, so a transaction that had read
  /// two moments passed as one that had read the later moment.
  @Test func secondReadOfAListMustBeLikeTheFirst() throws {
    var reader = transaction(9)
    try reader.note("x", [1])
    try reader.note("y", [])
    try reader.note("x", [1])
    #expect(reader.reads == ["x": [1], "y": []])
    for later: [UInt32] in [[1, 2], [], [2]] {
      var again = reader
      do {
        try again.note("x", later)
        Issue.record("x was read as [1] and as \(later)")
      } catch is HistoryChecker.UnrepeatableRead {
        // The two reads were compared.
      }
    }
  }
}
