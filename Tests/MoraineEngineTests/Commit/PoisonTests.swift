import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import Testing

@testable import MoraineEngine

/// All threads see the end of writing at the same moment.
@Suite(.timeLimit(.minutes(10))) struct PoisonTests {
  /// Found by the fault laboratory: statistics reported the poison, and the next write was still
  /// appended before it was refused.
  @Test func writesAreRefusedOnceThePoisonIsVisible() async throws {
    let pipeline = CommitPipeline()
    let gate = Gate()
    // The part of the poisoning that follows the publication waits here.
    try WorkerThread.start { pipeline.sharedPage.withLock { _ in gate.pass() } }
    await gate.arrival()
    try WorkerThread.start { pipeline.poison(StoreError(.io, "a sync failed")) }
    while pipeline.poison == nil { await Task.yield() }
    #expect(pipeline.hasPoison)
    gate.open()
  }

  /// The same at random moments, wherever the poison becomes visible first.
  @Test func writesAreRefusedOnceThePoisonIsVisibleAtRandomTimes() throws {
    for _ in 0..<200 {
      let pipeline = CommitPipeline()
      try WorkerThread.start { pipeline.poison(StoreError(.io, "a sync failed")) }
      while pipeline.poison == nil {}
      #expect(pipeline.hasPoison)
    }
  }
}
