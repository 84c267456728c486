import Foundation
import Testing

/// Searches over all interleavings of writers, of fenced writers and of a cleaner. Each checkpoint
/// and each commit that a cleaning keeps has its objects.
@Suite struct CleaningModelTests {
  private func search(
    without rules: CleaningRules = [], writers: Int, history: Int
  ) -> CleaningSearch {
    var search = CleaningSearch(.all.subtracting(rules), writers: writers, historyLimit: history)
    search.run()
    return search
  }

  private static var sizes: [(Int, Int)] {
    let size = ProcessInfo.processInfo.environment["MORAINE_MODEL_SIZE"].flatMap { Int($0) } ?? 1
    return [(1, 4), (2, 3)] + (size > 1 ? [(2, 4), (3, 3)] : [])
  }

  /// `MORAINE_MODEL_SIZE` 2 and more search larger models, too.
  @Test(arguments: sizes)
  func completeRulesRemoveNothingThatIsNeeded(writers: Int, history: Int) {
    let result = search(writers: writers, history: history)
    #expect(result.violation == nil, "\(result.stateCount) states")
    print("\(writers) writers, \(history) commits: \(result.stateCount) states")
    #expect(result.removalCount > 0, "\(result.stateCount) states")
  }

  @Test func objectsOfAnAttachedWriterAreNeeded() {
    let result = search(without: .terms, writers: 1, history: 4)
    #expect(result.violation?.contains("WITHOUT ITS OBJECT") == true, "\(result.stateCount)")
  }

  /// A writer has attached, and knows an older checkpoint than the one that a fenced writer makes.
  @Test func objectsThatALaterWriterKnowsAreNeeded() {
    let result = search(without: .laterTerm, writers: 2, history: 3)
    #expect(result.violation?.contains("WITHOUT ITS OBJECT") == true, "\(result.stateCount)")
  }

  @Test func termMustBeAbsentAfterTheCheckpointIsRead() {
    let result = search(without: .checkpointFirst, writers: 2, history: 3)
    #expect(result.violation?.contains("WITHOUT ITS OBJECT") == true, "\(result.stateCount)")
  }

  /// A writer that ended between a whole copy and its checkpoint.
  @Test func objectsOfGapsWithoutACheckpointAreNeeded() {
    let result = search(without: .gaps, writers: 2, history: 4)
    #expect(result.violation?.contains("GAP WITHOUT") == true, "\(result.stateCount)")
  }
}
