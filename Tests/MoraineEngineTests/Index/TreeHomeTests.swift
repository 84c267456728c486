import Testing

@testable import MoraineEngine

/// Pages of the trees that were copied for a snapshot return to their original place.
@Suite(.timeLimit(.minutes(10))) struct TreeHomeTests {
  private final class Moment {
    let trees: FrozenTrees

    init(_ trees: consuming FrozenTrees) { self.trees = trees }
  }

  /// Regression: the pages that a round had passed when a snapshot ended never returned, and every
  /// later write secured memory for copies.
  @Test func endOfASnapshotDuringARoundIsSeenInTheNextRound() throws {
    var tree = TreeIndex(leafLimit: 4, branchLimit: 5)
    var keys = TreeIndexTests.Keys()
    var model: [[UInt8]: Int] = [:]
    let batch = Dictionary(
      uniqueKeysWithValues: (1000..<1400).map { (Array(String($0).utf8), false) })
    try TreeIndexTests.apply(batch, to: &tree, &keys, &model, "insertions")
    var moments = [Moment(tree.freeze()), Moment(tree.freeze())]
    try TreeIndexTests.apply(batch, to: &tree, &keys, &model, "replacements")
    #expect(tree.memory.copyCounts.pages > 50)
    moments.removeFirst()
    let hasMore = tree.tend(pages: 10)
    #expect(hasMore, "the round has only begun")
    moments.removeAll()
    while tree.tend(pages: 1000) {}
    #expect(tree.memory.copyCounts.pages == 0)
    #expect(tree.isFrozen == false)
    try TreeIndexTests.expectEqual(tree, tree.root(1), model, "at home")
  }
}
