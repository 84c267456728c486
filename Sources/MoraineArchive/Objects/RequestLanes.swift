import MoraineStorage
import Synchronization

/// Threads for requests that block. Each request runs in the lane with the fewest requests, so that
/// a long request delays a short one only when all lanes are occupied.
///
/// The lanes use threads of the pool's crew `requests`, which runs nothing else: a network that
/// does not answer delays requests to other stores of objects at most. It does so when the lanes of
/// four stores of objects wait.
package final class RequestLanes: Sendable {
  private static let count = 8

  private let queues = (0..<count).map { _ in SerialQueue(.requests) }
  /// The number of requests in each lane.
  private let loads = Mutex([Int](repeating: 0, count: count))

  package init() {}

  /// Runs a request on a thread that may block, and waits for it without blocking.
  ///
  /// - Throws: the error of the request; `.cancelled` when the task was cancelled before.
  package func run<Answer: Sendable>(
    _ request: @escaping @Sendable () throws(ObjectStoreError) -> Answer
  ) async throws(ObjectStoreError) -> Answer {
    guard !Task.isCancelled else {
      throw ObjectStoreError(.cancelled, "the task was cancelled", mayHaveHadEffect: false)
    }
    let lane = enter()
    defer { leave(lane) }
    let answer: Result<Answer, ObjectStoreError> = await withUnsafeContinuation { continuation in
      queues[lane].enqueue { refusal in
        do throws(ObjectStoreError) {
          if let refusal { throw ObjectFiles.error(refusal, nil, mayHaveHadEffect: false) }
          continuation.resume(returning: .success(try request()))
        } catch {
          continuation.resume(returning: .failure(error))
        }
      }
    }
    return try answer.get()
  }

  private func enter() -> Int {
    loads.withLock { loads in
      let lane = loads.indices.min { loads[$0] < loads[$1] } ?? 0
      loads[lane] += 1
      return lane
    }
  }

  private func leave(_ lane: Int) {
    loads.withLock { loads in
      assert(loads[lane] > 0, "a request leaves a lane that it has not entered")
      loads[lane] -= 1
    }
  }
}
