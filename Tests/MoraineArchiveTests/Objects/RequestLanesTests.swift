import MoraineArchive
import MoraineStorage
import Testing

/// Threads on which requests to stores of objects block.
@Suite(.timeLimit(.minutes(5))) struct RequestLanesTests {
  /// A gate that holds threads.
  private final class ThreadGate: Sendable {
    private let monitor = Monitor(false)

    var isOpen: Bool { monitor.withLock { $0 } }

    func open() {
      monitor.withLock { $0 = true }
      monitor.broadcast()
    }

    func pass() { monitor.wait { isOpen in isOpen ? .done(()) : .forSignal } }
  }

  /// Regression: archives whose network did not answer held every thread of the crew on which other
  /// stores open, close and are backed up.
  @Test func requestsThatHangDelayNoWorkOfStores() async throws {
    let (gate, arrivals) = (ThreadGate(), Counter())
    let lanes = (0..<3).map { _ in RequestLanes() }
    let limit = ThreadPool.Crew.lasting.limit
    let requests = (0..<limit + 8).map { number in
      Task {
        try await lanes[number % lanes.count].run { () throws(ObjectStoreError) in
          _ = arrivals.next()
          gate.pass()
        }
      }
    }
    while arrivals.value < limit { await Task.yield() }
    // The test ends also when the job has to wait for the requests.
    let pool = ThreadPool.current
    try pool.secure()
    pool.timer.schedule(at: SystemClock.monotonicNanoseconds() + 30_000_000_000) { gate.open() }
    let hasWaited = await withUnsafeContinuation { (found: UnsafeContinuation<Bool, Never>) in
      SerialQueue(.lasting).enqueue { _ in found.resume(returning: gate.isOpen) }
    }
    #expect(!hasWaited, "work of a store waits until requests end")
    gate.open()
    for request in requests { try await request.value }
  }
}
