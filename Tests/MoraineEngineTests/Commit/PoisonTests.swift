import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import Testing

@testable import MoraineEngine

/// The end of writing is one moment, for all who look.
@Suite(.timeLimit(.minutes(10))) struct PoisonTests {
  /// IndexHit by the fault laboratory: statistics told of the poison, and the next write was still
  /// appended before it was refused.
  @Test func writesAreRefusedOnceThePoisonIsVisible() async throws {
    let pipeline = CommitPipeline()
    let gate = Gate()
    // What comes behind the telling waits here.
    try WorkerThread.start { pipeline.sharedPage.withLock { _ in gate.pass() } }
    await gate.arrival()
    try WorkerThread.start { pipeline.poison(StoreError(.io, "a sync failed")) }
    while pipeline.poison == nil { await Task.yield() }
    #expect(pipeline.hasPoison)
    gate.open()
  }

  /// The same by chance, wherever it is told.
  @Test func writesAreRefusedOnceThePoisonIsVisibleAtRandomTimes() throws {
    for _ in 0..<200 {
      let pipeline = CommitPipeline()
      try WorkerThread.start { pipeline.poison(StoreError(.io, "a sync failed")) }
      while pipeline.poison == nil {}
      #expect(pipeline.hasPoison)
    }
  }
}
