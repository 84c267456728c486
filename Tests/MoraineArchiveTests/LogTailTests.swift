import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineArchive

/// The bytes that a round ships are those between two cuts.
@Suite(.timeLimit(.minutes(1))) struct LogTailTests {
  /// Segments are begun, filled and replaced by compaction after the cut and before its round takes
  /// the segments that were replaced.
  @Test func tailEndsAtItsCut() async throws {
    var random = SeededGenerator(seed: 1)
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "first")
    let retired = RetiredSegments(shippedThrough: .none, limitBytes: 1 << 30)
    _ = await store.attach(retired)
    let first = try #require(try await store.logCut())
    var state = ArchivedState.empty
    (state.sequence, state.logEnd) = (first.sequence, first.logEnd)
    try await store.change(5, using: &random)
    let cut = try #require(try await store.logCut())
    let open = try #require(cut.segments.last)
    let segments = try await store.statistics().segmentCount
    while try await store.statistics().segmentCount < segments + 3 {
      try await store.change(20, using: &random)
    }
    _ = try await store.compact()
    let tail = try #require(
      LogTail(after: state, first.logEnd, cut, retired.take().segments, hasAll: true))
    #expect(tail.parts.map(\.segment.identity) == [open.identity])
    #expect(tail.parts.last?.range.upperBound == open.lengthBytes)
    // The next round has the rest of that segment.
    let next = try #require(try await store.logCut())
    (state.sequence, state.logEnd) = (cut.sequence, cut.logEnd)
    let rest = try #require(
      LogTail(after: state, cut.logEnd, next, retired.take().segments, hasAll: true))
    #expect(rest.parts.first?.segment.identity == open.identity)
    #expect(rest.parts.first?.range.lowerBound == open.lengthBytes)
    #expect(rest.parts.last?.segment.entry.lastSequence == next.sequence)
    try await store.close()
  }
}
