import Testing

@testable import MoraineEngine

/// The words that the writer and the committing thread exchange without a lock, in every order of
/// their accesses.
@Suite struct CommitInterleavingTests {
  private enum Cell {
    static let sequence = 0
    static let offset = 1
    static let delay = 2
    /// The bytes of the log that the kernel would find.
    static let bytes = 3
    /// 1 while a sync is due; under the lock.
    static let deadline = 4
  }

  private struct Words: WordMemory {
    typealias Stop = ModelThread.Stop
    let thread: ModelThread

    private func place(_ word: CommitWord) -> Int {
      switch word {
      case .appendedSequence: Cell.sequence
      case .appendedOffset: Cell.offset
      case .pendingDelay: Cell.delay
      }
    }

    func load(relaxed word: CommitWord) throws(Stop) -> UInt64 {
      try thread.load(relaxed: place(word))
    }
    func load(acquiring word: CommitWord) throws(Stop) -> UInt64 {
      try thread.load(acquiring: place(word))
    }
    func store(_ value: UInt64, relaxed word: CommitWord) throws(Stop) {
      try thread.store(value, relaxed: place(word))
    }
    func store(_ value: UInt64, releasing word: CommitWord) throws(Stop) {
      try thread.store(value, releasing: place(word))
    }
    func acquiringFence() throws(Stop) { try thread.acquiringFence() }
    func releasingFence() throws(Stop) { try thread.releasingFence() }
    func sequentiallyConsistentFence() throws(Stop) { try thread.sequentiallyConsistentFence() }
  }

  /// Appends, and requests a sync within 1000 ns each time.
  private static func writer(_ count: UInt64) -> Interleavings.Program {
    { (thread) throws(ModelThread.Stop) in
      let words = Words(thread: thread)
      for sequence in 1...count {
        try thread.store(sequence * 8, relaxed: Cell.bytes)
        try words.publish(sequence: sequence, offset: sequence * 8)
        if try words.hasSync(withinNanoseconds: 1000) { continue }
        try thread.lock()
        try thread.store(1, relaxed: Cell.deadline)
        try words.store(1000, relaxed: .pendingDelay)
        try thread.unlock()
      }
      return []
    }
  }

  /// Begins a sync when one is due, a number of times.
  ///
  /// Returns, for each sync, the sequence number and the offset that the sync covers, and the bytes
  /// that it finds.
  private static func committer(_ rounds: Int) -> Interleavings.Program {
    { (thread) throws(ModelThread.Stop) in
      let words = Words(thread: thread)
      var answers: [UInt64] = []
      for _ in 0..<rounds {
        try thread.lock()
        guard try thread.load(relaxed: Cell.deadline) == 1 else {
          try thread.unlock()
          continue
        }
        try thread.store(0, relaxed: Cell.deadline)
        let (sequence, offset) = try words.beginSync()
        try thread.unlock()
        answers += [sequence, offset, try thread.load(relaxed: Cell.bytes)]
      }
      return answers
    }
  }

  private static func outcomes(
    count: UInt64, rounds: Int, without: MemoryModel.Fence? = nil
  ) -> Set<Interleavings.Outcome> {
    Interleavings(
      programs: [writer(count), committer(rounds)],
      // A sync is already due.
      initial: [
        Cell.sequence: 0, Cell.offset: 0, Cell.delay: 1000, Cell.bytes: 0, Cell.deadline: 1,
      ], without: without
    ).outcomes()
  }

  /// Whether the last operation is durable, or a sync is due that will make it durable.
  private static func isCovered(_ outcome: Interleavings.Outcome, _ count: UInt64) -> Bool {
    let answers = outcome.answers[1]
    let covered = stride(from: 0, to: answers.count, by: 3).map { answers[$0] }.max() ?? 0
    return covered == count || outcome.memory.last(Cell.deadline) == 1
  }

  /// Regression: one of 129,000 operations with `.interval` had no sync until the next operation.
  @Test(arguments: [(UInt64(1), 2), (2, 1), (2, 2), (3, 2)])
  func everyOperationIsCoveredByASync(count: UInt64, rounds: Int) {
    let outcomes = Self.outcomes(count: count, rounds: rounds)
    #expect(outcomes.count > 3)
    for outcome in outcomes where !Self.isCovered(outcome, count) {
      Issue.record("operation \(count) has no sync: the syncs covered \(outcome.answers[1])")
      return
    }
  }

  @Test func syncMarkCoversItsSequenceNumberAndOnlyWrittenBytes() {
    for outcome in Self.outcomes(count: 2, rounds: 2) {
      let answers = outcome.answers[1]
      for sync in stride(from: 0, to: answers.count, by: 3) {
        #expect(answers[sync + 1] >= answers[sync] * 8, "the mark lies before the operation")
        #expect(answers[sync + 2] >= answers[sync + 1], "the mark lies after the written bytes")
      }
    }
  }

  /// Shows that the model can find the fault: without the fences it does.
  @Test func theModelFindsTheMissingFence() {
    let outcomes = Self.outcomes(count: 1, rounds: 1, without: .sequentiallyConsistent)
    #expect(outcomes.contains { !Self.isCovered($0, 1) })
  }
}
