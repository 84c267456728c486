import Synchronization

/// What a program under test has begun and what it was promised, as a count of its steps.
///
/// A crash may leave any whole number of steps, from the promised ones to the begun ones.
public final class CrashLedger: Sendable {
  struct Counts: Sendable {
    var begun: UInt64 = 0
    var acknowledged: UInt64 = 0
    var durable: UInt64 = 0
  }

  private let counts = Mutex(Counts())
  private let observer = Mutex<(@Sendable () -> Void)?>(nil)

  /// Called before a step begins and after each promise: a crash may come between them without any
  /// call to the disk.
  func setObserver(_ body: (@Sendable () -> Void)?) { observer.withLock { $0 = body } }

  private func tell() {
    let body = observer.withLock { $0 }
    body?()
  }

  var now: Counts { counts.withLock { $0 } }

  /// Say so before each step, or the laboratory takes what it leaves for invented.
  public func begin() {
    tell()
    counts.withLock { $0.begun += 1 }
  }

  /// All steps that were begun have returned: the death of the process takes none of them.
  public func acknowledge() {
    counts.withLock { $0.acknowledged = $0.begun }
    tell()
  }

  /// All steps that were begun are durable: a power failure takes none of them.
  public func becomeDurable() {
    counts.withLock { counts in
      counts.acknowledged = counts.begun
      counts.durable = counts.begun
    }
    tell()
  }

  /// The same with numbers of the caller's choice, for the engine's sequence numbers.
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
