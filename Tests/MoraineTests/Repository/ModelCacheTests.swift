import Testing

@testable import Moraine

/// Tasks may end in another order than their commits.
@Suite struct ModelCacheTests {
  private func entry(_ model: String, _ sequence: UInt64) -> ModelCache<Int, String>.Entry {
    ModelCache<Int, String>.Entry(model: model, sequence: sequence, costBytes: 1)
  }

  @Test func entriesOfEarlierCommitsStayOutAfterADeletionOfAll() {
    var cache = ModelCache<Int, String>(.all)
    cache.insert(entry("a", 5), for: 1)
    cache.removeAll(at: 11)
    cache.insert(entry("b", 10), for: 2)
    #expect(cache.count == 0)
    cache.insert(entry("c", 12), for: 2)
    #expect(cache.entry(2)?.model == "c")
  }

  @Test func entryOfAnEarlierCommitStaysOutAfterAModelThatExpires() {
    var cache = ModelCache<Int, String>(.all)
    cache.remove(1, at: 7)
    cache.insert(entry("a", 6), for: 1)
    #expect(cache.entry(1) == nil)
    cache.insert(entry("b", 2), for: 2)
    #expect(cache.entry(2)?.model == "b", "other models are not concerned")
    cache.insert(entry("c", 8), for: 1)
    #expect(cache.entry(1)?.model == "c")
  }

  /// The cache may not have what a later commit has left, so an earlier one must not fill it.
  @Test func earlierCommitThatEndsLastIsNotTheLatest() {
    var commits = LocalCommits()
    commits.restart(at: 9)
    commits.begin()
    commits.begin()
    commits.end(11)
    #expect(commits.isLatest(11))
    commits.end(10)
    #expect(!commits.isLatest(10))
    #expect(commits.known == 11)
    // All commits up to the count of a new beginning have ended.
    commits.restart(at: 20)
    #expect(!commits.isLatest(19))
    #expect(commits.isLatest(21))
  }

  /// Regression: after a commit of another writer, a repository that only wrote remembered each of
  /// its own commits for ever.
  @Test func foreignCommitDoesNotMakeOwnCommitsPileUp() {
    var commits = LocalCommits()
    commits.restart(at: 9)
    // The commit 10 is another writer's.
    for number in 11...100_000 as ClosedRange<UInt64> {
      commits.begin()
      commits.end(number)
    }
    #expect(commits.laterCount <= 4096)
    #expect(commits.known == 9)
    #expect(commits.isLatest(100_000))
    commits.restart(at: 100_000)
    commits.begin()
    commits.end(100_001)
    #expect(commits.known == 100_001)
    #expect(commits.laterCount == 0)
  }
}
