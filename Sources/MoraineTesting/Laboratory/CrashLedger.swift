import Synchronization

/// A count of the steps that a program under test has begun, and of those that must survive.
///
/// After a crash the program may find any number of its first steps, from the steps that must
/// survive to the steps that have begun. A step survives as a whole or not at all.
public final class CrashLedger: Sendable {
  struct Counts: Sendable {
    var begun: UInt64 = 0
    var acknowledged: UInt64 = 0
    var durable: UInt64 = 0
  }

  private let counts = Mutex(Counts())
  private let observer = Mutex<(@Sendable () -> Void)?>(nil)

  /// Sets a body that runs before each step begins and after each promise: a crash may occur
  /// between them without any call to the disk.
  func setObserver(_ body: (@Sendable () -> Void)?) { observer.withLock { $0 = body } }

  private func callObserver() {
    let body = observer.withLock { $0 }
    body?()
  }

  var now: Counts { counts.withLock { $0 } }

  /// Records that a step begins. Call it before each step: the laboratory treats the data of a step
  /// that has not begun as data that the program never wrote.
  public func begin() {
    callObserver()
    counts.withLock { $0.begun += 1 }
  }

  /// Records that all begun steps have returned: they survive the death of the process.
  public func acknowledge() {
    counts.withLock { $0.acknowledged = $0.begun }
    callObserver()
  }

  /// Records that all begun steps are durable: they survive a power failure.
  public func becomeDurable() {
    counts.withLock { counts in
      counts.acknowledged = counts.begun
      counts.durable = counts.begun
    }
    callObserver()
  }

  /// Records that all steps up to a number have returned. The caller chooses the numbers: the
  /// laboratory passes the sequence numbers of the engine.
  func acknowledge(_ number: UInt64) {
    counts.withLock { $0.acknowledged = max($0.acknowledged, number) }
  }

  func becomeDurable(_ number: UInt64) {
    counts.withLock { counts in
      counts.acknowledged = max(counts.acknowledged, number)
      counts.durable = max(counts.durable, number)
    }
  }
}
