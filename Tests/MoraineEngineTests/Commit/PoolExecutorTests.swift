import MoraineTesting
import Testing

@testable import MoraineEngine

struct PoolExecutorTests {
  /// After a job has left an actor, the runtime may go on with a program's loop on the same thread.
  /// Then the other jobs of the executor need another thread.
  @Test func jobThatKeepsItsThreadDelaysNoOtherJob() async {
    let executor = PoolExecutor()
    let gate = Gate()
    let first = Task(executorPreference: executor) { gate.pass() }
    await gate.arrival()
    await Task(executorPreference: executor) {}.value
    gate.open()
    await first.value
  }

  /// The committing thread must be free for the jobs that a close waits for.
  @Test func taskThatClosesAStoreKeepsNoJobOfTheStoreBack() async throws {
    let pipeline = CommitPipeline()
    let gate = Gate()
    let closing = Task(executorPreference: pipeline.taskExecutor) { gate.pass() }
    await gate.arrival()
    try await pipeline.run { () throws(StoreError) in }
    gate.open()
    await closing.value
    pipeline.stop()
  }
}
