import MoraineStorage
import Synchronization

/// How long the calls of a simulated disk take.
///
/// Each takes between half of it and all of it, as drawn from the seed, so that what happens at
/// once meets in ever other orders.
public struct SimulatedLatency: Sendable {
  /// The most that a call takes, in microseconds.
  public var microseconds: Int
  private let generator: SharedGenerator?

  /// Calls that take no time of their own.
  public static let none = SimulatedLatency(microseconds: 0)

  /// - Parameters:
  ///   - microseconds: 0 to one second.
  ///   - seed: of the share that each call takes.
  public init(microseconds: Int, seed: UInt64 = 1) {
    self.microseconds = min(max(0, microseconds), 1_000_000)
    generator = microseconds > 0 ? SharedGenerator(seed: seed) : nil
  }

  func pass() {
    guard let generator else { return }
    let most = UInt64(microseconds) * 1000
    SystemClock.sleep(nanoseconds: most / 2 + generator.next() % (most / 2 + 1))
  }
}

/// A generator that threads share.
final class SharedGenerator: Sendable {
  private let generator: Mutex<SeededGenerator>

  init(seed: UInt64) {
    generator = Mutex(SeededGenerator(seed: seed))
  }

  func next() -> UInt64 { generator.withLock { $0.next() } }
}
