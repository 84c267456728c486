import MoraineTesting
import Synchronization

/// The moments of a simulated disk at which a crash could occur.
final class Moments: Sendable {
  private let list = Mutex<[DiskMoment]>([])

  var all: [DiskMoment] { list.withLock { $0 } }

  func append(_ moment: DiskMoment) { list.withLock { $0.append(moment) } }
}
