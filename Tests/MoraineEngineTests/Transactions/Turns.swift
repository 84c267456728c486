import MoraineTesting

/// A scheduler of sessions. It resumes one session at a time, in an order that a seed selects, and
/// waits until that session has completed its step. Sometimes it resumes several at once.
///
/// So transactions overlap however long their steps take, and a seed repeats the order.
actor Turns {
  private var parked: [Int: CheckedContinuation<Void, Never>] = [:]
  private var runningCount: Int
  private var scheduler: CheckedContinuation<Void, Never>?

  /// - Parameter sessionCount: the number of sessions, which are numbered from 0. All of them run
  ///   until they wait for their first turn.
  init(sessionCount: Int) {
    runningCount = sessionCount
  }

  /// Ends the step of a session, and waits for its next turn.
  func next(_ session: Int) async {
    await withCheckedContinuation { continuation in
      parked[session] = continuation
      endStep()
    }
  }

  /// Ends the last step of a session.
  func endStep() {
    runningCount -= 1
    guard runningCount == 0 else { return }
    scheduler?.resume()
    scheduler = nil
  }

  /// Resumes sessions until all of them have ended.
  func schedule(seed: UInt64) async {
    var random = SeededGenerator(seed: seed)
    while true {
      if runningCount > 0 { await withCheckedContinuation { scheduler = $0 } }
      if parked.isEmpty { return }
      let count = random.below(5) == 0 ? 2 + random.below(2) : 1
      for session in parked.keys.sorted().shuffled(using: &random).prefix(count) {
        runningCount += 1
        parked.removeValue(forKey: session)?.resume()
      }
    }
  }
}

extension SeededGenerator {
  /// Returns a number from 0 up to the end, without the end.
  mutating func below(_ end: Int) -> Int { Int(next() % UInt64(end)) }
}
