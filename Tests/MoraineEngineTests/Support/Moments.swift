import MoraineTesting
import Synchronization

/// The moments of a simulated disk that a crash could come at.
final class Moments: Sendable {
  private let list = Mutex<[DiskMoment]>([])

  var all: [DiskMoment] { list.withLock { $0 } }

  func append(_ moment: DiskMoment) { list.withLock { $0.append(moment) } }
}
