import Synchronization
import SystemPackage
import Testing

@testable import MoraineStorage

@Suite(.timeLimit(.minutes(5))) struct ThreadPoolTests {
  /// Counts, and wakes the thread that waits for a number.
  private final class Counter: Sendable {
    private let monitor = Monitor(0)

    func add() {
      monitor.withLock { $0 += 1 }
      monitor.signal()
    }

    func wait(for number: Int) {
      monitor.wait { count in count >= number ? .done(()) : .forSignal }
    }

    var count: Int { monitor.withLock { $0 } }
  }

  @Test func jobsOfAQueueRunInOrderAndOneAtATime() throws {
    let pool = ThreadPool()
    try pool.secure()
    let done = Counter()
    let queues = (0..<50).map { _ in SerialQueue(.brief, of: pool) }
    let logs = queues.map { _ in Box(Mutex([])) }
    for number in 0..<100 {
      for (queue, log) in zip(queues, logs) {
        queue.enqueue { _ in
          log.value.withLock { $0.append(number) }
          done.add()
        }
      }
    }
    done.wait(for: 5000)
    for log in logs { #expect(log.value.withLock { $0 } == Array(0..<100)) }
    #expect(pool.threadCount(.brief) <= ThreadPool.Crew.brief.limit)
  }

  private final class Box: Sendable {
    let value: Mutex<[Int]>
    init(_ value: consuming Mutex<[Int]>) { self.value = value }
  }

  /// A stuck disk or a user's function blocks threads of one crew; the other crews continue.
  @Test(arguments: ThreadPool.Crew.allCases)
  func fullCrewDoesNotDelayOtherCrews(full: ThreadPool.Crew) throws {
    let pool = ThreadPool()
    try pool.secure()
    let (entered, gate, done) = (Counter(), Counter(), Counter())
    let limit = full.limit
    for _ in 0..<limit + 1 {
      SerialQueue(full, of: pool).enqueue { _ in
        entered.add()
        gate.wait(for: 1)
        gate.add()
        done.add()
      }
    }
    entered.wait(for: limit)
    for crew in ThreadPool.Crew.allCases where crew != full {
      let ran = Counter()
      SerialQueue(crew, of: pool).enqueue { _ in ran.add() }
      ran.wait(for: 1)
    }
    #expect(pool.threadCount(full) == limit)
    #expect(entered.count == limit, "the last one waits for a thread")
    gate.add()
    done.wait(for: limit + 1)
  }

  /// Permits a number of threads.
  private final class Allowance: Sendable {
    private let left: Mutex<Int>
    init(_ count: Int) { left = Mutex(count) }

    func start(_ body: @escaping @Sendable () -> Void) throws(StorageError) {
      let isAllowed = left.withLock { left in
        defer { left -= 1 }
        return left > 0
      }
      guard isAllowed else {
        throw StorageError("start a thread", file: "", errno: .resourceTemporarilyUnavailable)
      }
      try WorkerThread.start(body)
    }
  }

  @Test func oneThreadDoesAllBriefAndBackgroundWork() throws {
    let allowance = Allowance(1)
    let pool = ThreadPool { body throws(StorageError) in try allowance.start(body) }
    try pool.secure()
    let done = Counter()
    for number in 0..<200 {
      SerialQueue(number % 2 == 0 ? .brief : .background, of: pool).enqueue { refusal in
        #expect(refusal == nil)
        done.add()
      }
    }
    done.wait(for: 200)
    #expect(pool.threadCount(.brief) == 1)
  }

  /// Regression: the process waited for ever, and held the lock of the store's pipeline.
  @Test(arguments: [ThreadPool.Crew.lasting, .requests])
  func lastingWorkIsRefusedWithoutAThread(crew: ThreadPool.Crew) throws {
    let allowance = Allowance(1)
    let pool = ThreadPool { body throws(StorageError) in try allowance.start(body) }
    try pool.secure()
    let refused = Counter()
    for _ in 0..<20 {
      SerialQueue(crew, of: pool).enqueue { refusal in
        #expect(refusal?.errno == .resourceTemporarilyUnavailable)
        refused.add()
      }
    }
    refused.wait(for: 20)
  }

  @Test func aPoolWithoutAnyThreadThrows() async throws {
    let allowance = Allowance(0)
    let pool = ThreadPool { body throws(StorageError) in try allowance.start(body) }
    #expect(throws: StorageError.self) { try pool.secure() }
    await #expect(throws: StorageError.self) { try await pool.secureWithoutBlocking() }
    let refused = Counter()
    SerialQueue(.brief, of: pool).enqueue { refusal in
      #expect(refusal != nil)
      refused.add()
    }
    #expect(refused.count == 1)
  }

  /// A system that starts or refuses the first thread as soon as the test permits an answer.
  private final class LateAnswer: Sendable {
    let asked = Counter()
    let answer = Counter()
    private let isRefusal: Bool

    init(isRefusal: Bool) { self.isRefusal = isRefusal }

    func start(_ body: @escaping @Sendable () -> Void) throws(StorageError) {
      asked.add()
      if asked.count == 1 {
        answer.wait(for: 1)
        if isRefusal {
          throw StorageError("start a thread", file: "", errno: .resourceTemporarilyUnavailable)
        }
      }
      try WorkerThread.start(body)
    }

    /// Creates a pool whose timer, or whose first thread, waits for the answer.
    func pool(isOfTimer: Bool) -> ThreadPool {
      let timer = PoolTimer { [self] body throws(StorageError) in
        if isOfTimer { try start(body) } else { try WorkerThread.start(body) }
      }
      return ThreadPool(timer: timer) { [self] body throws(StorageError) in
        if isOfTimer { try WorkerThread.start(body) } else { try start(body) }
      }
    }
  }

  /// Secures the pool on a thread of its own, and counts its end.
  private func secureOnAThread(
    _ pool: ThreadPool, ended: Counter, failed: Counter, _ check: @escaping @Sendable () -> Void
  ) throws {
    try WorkerThread.start {
      do throws(StorageError) { try pool.secure() } catch { failed.add() }
      check()
      ended.add()
    }
  }

  /// Regression: a caller took the timer, or the first thread, for started while another caller was
  /// starting it. That start was refused, and the first caller's store had no timer.
  @Test(arguments: [true, false])
  func threadThatMayBeRefusedSecuresNoOtherCaller(isOfTimer: Bool) throws {
    let system = LateAnswer(isRefusal: true)
    let pool = system.pool(isOfTimer: isOfTimer)
    let (ended, failed, early) = (Counter(), Counter(), Counter())
    for _ in 0..<2 {
      try secureOnAThread(pool, ended: ended, failed: failed) {
        if system.answer.count == 0 { early.add() }
      }
      system.asked.wait(for: 1)
    }
    // The second caller has begun to wait then. If it has not, the test demonstrates less.
    SystemClock.sleep(nanoseconds: 100_000_000)
    system.answer.add()
    ended.wait(for: 2)
    #expect(early.count == 0, "each caller waits for the answer")
    #expect(failed.count == 0)
    #expect(system.asked.count == 2, "one caller tries again after the refusal")
    #expect(pool.threadCount(.brief) == 1)
    #expect(pool.timer.isRunning)
  }

  /// Regression: a caller took another caller's start for a refusal of the system. It threw after a
  /// second, and at once when its task was cancelled, although the system refused nothing.
  @Test(arguments: [true, false])
  func startOfAnotherCallerIsNoRefusal(isOfTimer: Bool) async throws {
    let system = LateAnswer(isRefusal: false)
    let pool = system.pool(isOfTimer: isOfTimer)
    let (ended, failed) = (Counter(), Counter())
    for _ in 0..<2 {
      try secureOnAThread(pool, ended: ended, failed: failed) {}
      system.asked.wait(for: 1)
    }
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      try await pool.secureWithoutBlocking()
    }
    // The answer takes longer than the pool's patience with refusals.
    try await Task.sleep(nanoseconds: ThreadPool.patienceNanoseconds + 200_000_000)
    system.answer.add()
    try await cancelled.value
    ended.wait(for: 2)
    #expect(failed.count == 0)
    #expect(system.asked.count == 1, "the system is asked for one thread, and refuses none")
    #expect(pool.threadCount(.brief) == 1)
    #expect(pool.timer.isRunning)
  }

  @Test func theTimerKeepsTheOrderOfTimes() throws {
    let timer = PoolTimer()
    let log = Box(Mutex([]))
    let done = Counter()
    let now = SystemClock.monotonicNanoseconds()
    var generator = SystemRandomNumberGenerator()
    let delays = (0..<100).map { $0 * 100_000 }.shuffled(using: &generator)
    for delay in delays {
      timer.schedule(at: now + UInt64(delay)) {
        log.value.withLock { $0.append(delay) }
        done.add()
      }
    }
    try timer.start()
    done.wait(for: 100)
    #expect(log.value.withLock { $0 } == delays.sorted(), "\(delays)")
  }
}
