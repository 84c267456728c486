import Hummingbird
import HummingbirdTesting
import Moraine
import MoraineHummingbird
import MoraineTesting

/// The drivers that must pass the same cases.
enum DriverKind: CaseIterable {
  /// Hummingbird's own driver, which keeps values in memory.
  case memory
  /// The driver of this package.
  case moraine

  /// Creates a driver without entries.
  func driver(_ clock: ManualClock) throws -> any PersistDriver {
    switch self {
    case .memory:
      let frequency = MemoryPersistDriver<SteppedClock>.Configuration(tidyFrequency: .seconds(1))
      return MemoryPersistDriver(SteppedClock(clock), configuration: frequency)
    case .moraine:
      let store = Store.inMemory(configuration: .stepped(clock))
      return MorainePersistDriver(in: try store.keyspace(named: "persist"), clock: clock)
    }
  }
}

/// The ways of a request to the routes.
enum Transport: CaseIterable {
  /// The router is called directly.
  case router
  /// The request goes through HTTP to a server on a free port.
  case server

  var setup: TestingSetup {
    switch self {
    case .router: .router
    case .server: .ahc()
    }
  }
}

extension Store.Configuration {
  /// Returns a configuration whose entries expire by a manual clock.
  static func stepped(_ clock: ManualClock) -> Store.Configuration {
    var configuration = Store.Configuration()
    configuration.clock = clock
    configuration.expiryGrace = .seconds(1)
    configuration.reapInterval = .seconds(1)
    return configuration
  }
}

/// A manual clock in the form that Hummingbird's driver needs.
struct SteppedClock: Clock {
  struct Instant: InstantProtocol {
    let milliseconds: Int64

    func advanced(by duration: Duration) -> Instant {
      let (seconds, attoseconds) = duration.components
      return Instant(
        milliseconds: milliseconds + seconds * 1000 + attoseconds / 1_000_000_000_000_000)
    }

    func duration(to other: Instant) -> Duration {
      .milliseconds(other.milliseconds - milliseconds)
    }

    static func < (left: Instant, right: Instant) -> Bool {
      left.milliseconds < right.milliseconds
    }
  }

  private let manual: ManualClock

  init(_ manual: ManualClock) {
    self.manual = manual
  }

  var now: Instant { Instant(milliseconds: Int64(manual.milliseconds)) }

  var minimumResolution: Duration { .milliseconds(1) }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    try await manual.sleep(until: UInt64(deadline.milliseconds))
  }
}
