import Foundation
import MoraineArchive
import Testing

/// Exhaustive searches over the machines of the protocol and an abstract store of objects.
///
/// The environment variable `MORAINE_MODEL_SIZE` chooses the searches of the complete rules. Each
/// size contains the smaller ones:
///
/// | size | states | time, optimized | memory |
/// |---|---|---|---|
/// | 0: default without optimization | 0.4 million | 1 s (2 s in debug) | below 0.3 GB |
/// | 1: default with optimization | 9 million | 11 to 19 s | 0.3 GB |
/// | 2 | 118 million | 3 min | 3.4 GB |
/// | 3 | 358 million, not all of them complete | 9 min | 3.4 GB |
@Suite(.serialized) struct ProtocolModelTests {
  // MARK: The complete rules

  /// The comment at each search is its number of states.
  private static let sizes: [[ModelConfiguration]] = [
    [
      model(2, 3, [.cleaner]),  // 14,000
      model(2, 4, [.cleaner]),  // 66,000
      model(2, 2, [.lostAnswers, .delayedCreates, .cleaner]),  // 98,000
      model(2, 3, [.restore, .cleaner]),  // 160,000
      model(2, 3, [.expiringTerms, .cleaner]),  // 61,000
    ],
    [
      model(2, 3, [.lostAnswers, .delayedCreates, .cleaner]),  // 1,170,000
      model(2, 3, [.lostAnswers, .delayedCreates]),  // 1,860,000
      model(2, 3, [.follower, .cleaner], followerBatch: 2),  // 570,000
      model(2, 2, [.follower, .lostAnswers, .delayedCreates, .deaths, .cleaner]),  // 2,380,000
      model(2, 2, [.lostAnswers, .delayedCreates, .deaths, .expiringTerms]),  // 1,200,000
      model(2, 3, [.anyHints, .expiringTerms, .cleaner]),  // 450,000
      model(2, 2, [.anyHints, .lostAnswers, .cleaner]),  // 130,000
      model(3, 2, [.cleaner]),  // 1,020,000
    ],
    [
      model(3, 3, [.cleaner]),  // 18,600,000
      model(3, 2, [.lostAnswers, .cleaner]),  // 10,000,000
      model(3, 2, [.follower, .cleaner]),  // 18,500,000
      model(2, 4, [.follower, .cleaner]),  // 3,000,000
      model(2, 4, [.lostAnswers, .delayedCreates, .cleaner]),  // 9,000,000
      model(2, 3, [.follower, .lostAnswers, .delayedCreates, .cleaner]),  // 33,700,000
      model(2, 3, [.lostAnswers, .delayedCreates, .deaths, .expiringTerms, .cleaner]),
      // 13,600,000
      model(2, 3, [.restore, .lostAnswers]),  // 2,830,000
    ],
    [
      // These reach the limit of 60,000,000 states.
      model(3, 2, [.follower, .lostAnswers, .cleaner]),
      model(3, 3, [.lostAnswers, .cleaner]),
      model(3, 2, [.lostAnswers, .delayedCreates, .cleaner]),
      model(2, 4, [.follower, .lostAnswers, .delayedCreates, .deaths, .cleaner]),
    ],
  ]

  static var configurations: [ModelConfiguration] {
    #if DEBUG
      let usual = 0
    #else
      let usual = 1
    #endif
    let text = ProcessInfo.processInfo.environment["MORAINE_MODEL_SIZE"]
    let size = text.flatMap { Int($0) } ?? usual
    return Array(sizes.prefix(size + 1).joined())
  }

  private static func model(
    _ writers: Int, _ positions: Int, _ features: ModelFeatures, followerBatch: UInt64 = 1
  ) -> ModelConfiguration {
    var result = ModelConfiguration(writers: writers, positions: positions, features: features)
    result.followerBatch = followerBatch
    return result
  }

  @Test(arguments: configurations)
  func completeRulesKeepThePromises(configuration: ModelConfiguration) {
    let result = ModelSearch.run(configuration)
    #expect(result.violation == nil, "\(result)")
    #expect(result.isComplete || result.stateCount > configuration.stateLimit, "\(result)")
    #expect(result.acknowledgements > 0, "\(result)")
  }

  /// The search that sends requests with an answer that cannot change at once reaches the same
  /// objects and the same histories as the search of all interleavings.
  @Test func reducedSearchesReachTheSameWorlds() {
    var configuration = Self.model(2, 2, [.lostAnswers, .delayedCreates, .cleaner])
    let reduced = ModelSearch(configuration)
    configuration.isReduced = false
    let complete = ModelSearch(configuration)
    let (few, many) = (reduced.run(), complete.run())
    #expect(few.violation == nil && many.violation == nil)
    #expect(few.stateCount < many.stateCount)
    #expect(Set(reduced.tables.worlds.values) == Set(complete.tables.worlds.values))
  }

  // MARK: Broken rules

  /// Searches without some rules, and expects a violation.
  private func expectViolation(
    _ expected: String, without rules: ProtocolRules, _ configuration: ModelConfiguration,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    var configuration = configuration
    configuration.rules.subtract(rules)
    let result = ModelSearch.run(configuration)
    let isExpected = result.violation?.description.hasPrefix(expected) == true
    #expect(isExpected, "\(result)", sourceLocation: sourceLocation)
    #expect(!result.path.isEmpty, "a violation has a path", sourceLocation: sourceLocation)
  }

  @Test func withoutTheTermCheckFencedWritersAcknowledge() {
    expectViolation(
      "FALSE ACK", without: .termCheckAfterCommit, Self.model(2, 3, [.cleaner]))
    expectViolation("FALSE ACK", without: .termCheckAfterCommit, Self.model(2, 3, []))
  }

  @Test func withoutTheCheckpointCheckBeforeTheFenceLateObjectsBecomeTheHead() {
    var configuration = Self.model(3, 2, [.cleaner])
    expectViolation("BROKEN CHAIN", without: .checkpointCheckBeforeFence, configuration)
    configuration.checksChain = false
    expectViolation("TERM REGRESSION", without: .checkpointCheckBeforeFence, configuration)
  }

  @Test func withoutBothCheckpointChecksFencesOfRemovedPositionsAreAcknowledged() {
    expectViolation(
      "FALSE ACK", without: [.checkpointCheckBeforeFence, .checkpointCheckAfterFence],
      Self.model(2, 3, [.cleaner]))
  }

  /// The check after the fence is a second line: with the check before the fence no search needs
  /// it.
  @Test func withoutTheCheckpointCheckAfterTheFenceAloneNothingIsFound() {
    var configuration = Self.model(2, 3, [.cleaner])
    configuration.rules.remove(.checkpointCheckAfterFence)
    let result = ModelSearch.run(configuration)
    #expect(result.violation == nil && result.isComplete, "\(result)")
  }

  @Test func outdatedListsOfCheckpointsLeadToFalseAcknowledgements() {
    expectViolation(
      "FALSE ACK",
      without: [
        .numberedCheckpoints, .checkpointCheckBeforeFence, .checkpointCheckAfterFence,
      ], Self.model(2, 3, [.cleaner]))
  }

  @Test func goingOnAtTheNextPositionAfterAConflictLetsTermsFall() {
    expectViolation(
      "TERM REGRESSION", without: .searchAfterConflict, Self.model(2, 3, [.cleaner]))
  }

  @Test func withoutRecognitionOfOwnCommitsWritersFenceThemselves() {
    expectViolation(
      "FENCED WITHOUT A SUCCESSOR", without: .recognizeOwnCommits,
      Self.model(2, 3, [.lostAnswers, .cleaner]))
  }

  @Test func withoutRecognitionOfOtherCommitsTheyAreAcknowledgedAsOwn() {
    expectViolation(
      "FALSE ACK", without: .recognizeOtherCommits,
      Self.model(2, 3, [.lostAnswers, .cleaner]))
  }

  @Test func withoutAnyCheckFollowersApplyLateObjects() {
    expectViolation(
      "READER APPLIED WHAT IS NOT HISTORY",
      without: [.checkpointCheckBeforeApplying, .chainCheck],
      Self.model(2, 3, [.follower, .cleaner]))
  }

  @Test func withTheChainCheckAloneFollowersApplyLateObjects() {
    expectViolation(
      "READER APPLIED WHAT IS NOT HISTORY", without: .checkpointCheckBeforeApplying,
      Self.model(2, 3, [.follower, .cleaner]))
  }

  @Test func followersThatStopAtAnOldCheckpointApplyLateObjects() {
    expectViolation(
      "READER APPLIED WHAT IS NOT HISTORY", without: .checkpointCheckToTheEnd,
      Self.model(2, 3, [.follower, .cleaner]))
  }

  @Test func followersThatDoNotCompareTheCheckpointsCommitApplyLateObjects() {
    expectViolation(
      "READER APPLIED WHAT IS NOT HISTORY", without: .checkpointInChain,
      Self.model(2, 3, [.follower, .cleaner], followerBatch: 2))
  }

  @Test func restoresWithoutAClosedChainApplyLateObjects() {
    expectViolation(
      "READER APPLIED WHAT IS NOT HISTORY", without: .closedChain,
      Self.model(2, 3, [.restore, .cleaner]))
  }

  @Test func writersThatDoNotCountTheirStallsAcknowledgeWhenTermsExpire() {
    var configuration = Self.model(2, 3, [.expiringTerms, .cleaner])
    configuration.stallRule = .ignored
    expectViolation("FALSE ACK", without: [], configuration)
  }

  @Test func idleWritersThatDoNotCountTheirStallsAcknowledgeWhenTermsExpire() {
    var configuration = Self.model(2, 3, [.expiringTerms, .cleaner])
    configuration.stallRule = .sinceCreate
    expectViolation("FALSE ACK", without: [], configuration)
  }

  @Test func gapsBetweenTermsHideSuccessors() {
    expectViolation("FALSE ACK", without: .contiguousTerms, Self.model(3, 3, [.cleaner]))
  }
}
