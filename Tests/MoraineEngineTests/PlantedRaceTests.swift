import Foundation
import MoraineStorage
import Synchronization
import Testing

/// Deliberate races, which show that ThreadSanitizer detects races in this build: `Scripts/prove
/// --only thread` runs each test alone and expects a report.
@Suite struct PlantedRaceTests {
  static let isWanted = ProcessInfo.processInfo.environment["MORAINE_PLANT_RACE"] != nil

  private struct Place: @unchecked Sendable {
    let memory = UnsafeMutablePointer<Int>.allocate(capacity: 1)
  }

  /// Two threads without any order.
  @Test(.enabled(if: isWanted)) func plantedRaceOfTwoThreadsIsReported() async throws {
    let place = Place()
    place.memory.initialize(to: 0)
    // Relaxed, so that waiting creates no order.
    let written = Counter()
    for number in 1...2 {
      try WorkerThread.start {
        // One thread after the other, and both alive: the sanitizer misses accesses in the same
        // moment, and may have forgotten the accesses of a thread that has ended.
        while written.count.load(ordering: .relaxed) < number - 1 {}
        place.memory.pointee = number
        written.count.add(1, ordering: .relaxed)
        while written.count.load(ordering: .relaxed) < 2 {}
      }
    }
    while written.count.load(ordering: .relaxed) < 2 { await Task.yield() }
  }

  /// A thread that writes memory that it has already handed over.
  @Test(.enabled(if: isWanted)) func plantedRaceAfterAContinuationIsReported() async throws {
    let place = Place()
    place.memory.initialize(to: 0)
    let (written, seen) = (Counter(), Counter())
    try await withUnsafeThrowingContinuation {
      (continuation: UnsafeContinuation<Void, any Error>) in
      do throws(StorageError) {
        try WorkerThread.start {
          continuation.resume()
          place.memory.pointee = 1
          written.count.add(1, ordering: .relaxed)
          // Stays alive until the other thread has written too.
          while seen.count.load(ordering: .relaxed) < 1 {}
        }
      } catch {
        continuation.resume(throwing: error)
      }
    }
    while written.count.load(ordering: .relaxed) < 1 {}
    place.memory.pointee = 2
    seen.count.add(1, ordering: .relaxed)
  }

  private final class Counter: Sendable {
    let count = Atomic<Int>(0)
  }
}
