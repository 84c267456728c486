import MoraineStorage
import Synchronization

/// The time that each call of a simulated disk takes.
///
/// A call takes a random time between half of the maximum and the maximum, drawn from the seed, so
/// that concurrent calls end in many different orders.
public struct SimulatedLatency: Sendable {
  /// The longest time that a call takes, in microseconds.
  public var microseconds: Int
  private let generator: SharedGenerator?

  /// Calls take no extra time.
  public static let none = SimulatedLatency(microseconds: 0)

  /// - Parameters:
  ///   - microseconds: the longest time of a call, from 0 to 1,000,000.
  ///   - seed: seeds the choice of the time of each call.
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

/// A seeded generator that several threads share.
final class SharedGenerator: Sendable {
  private let generator: Mutex<SeededGenerator>

  init(seed: UInt64) {
    generator = Mutex(SeededGenerator(seed: seed))
  }

  func next() -> UInt64 { generator.withLock { $0.next() } }
}
