import Foundation
import MoraineArchive
import MoraineEngine
import MoraineTesting
import Synchronization

/// Collects the disk of a machine and the archive before every so many changes of the disk.
///
/// `MORAINE_ARCHIVE_CRASHES` is the share of the changes: every 23rd one by default, 1 for all.
final class ArchiveCrashes: Sendable {
  /// The disk and the archive before a change of the disk.
  struct Crash {
    /// The number of the change.
    let change: Int
    let moment: DiskMoment
    let objects: [ObjectName: [UInt8]]
    /// The last operation that must not be lost.
    let reached: SequenceNumber
  }

  static var step: Int {
    ProcessInfo.processInfo.environment["MORAINE_ARCHIVE_CRASHES"].flatMap { Int($0) } ?? 23
  }

  static var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 4096
    configuration.compaction = .manual
    configuration.durability = .none
    configuration.ioMode = .positional
    return configuration
  }

  /// An archive in which most cuts need several commits.
  static func bench(_ objects: [ObjectName: [UInt8]] = [:]) -> ArchiveBench {
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 1500
    bench.objects.objects = objects
    return bench
  }

  private let state = Mutex((count: 0, reached: SequenceNumber.none, crashes: [Crash]()))

  var count: Int { state.withLock { $0.count } }
  var all: [Crash] { state.withLock { $0.crashes } }

  func reach(_ sequence: SequenceNumber) { state.withLock { $0.reached = sequence } }

  func observe(_ disk: SimulatedDisk, _ objects: SimulatedObjectStore) {
    let change: Int? = state.withLock { state in
      state.count += 1
      return state.count % Self.step == 0 ? state.count : nil
    }
    guard let change else { return }
    let (moment, content) = (disk.moment(), objects.objects)
    state.withLock { state in
      state.crashes.append(
        Crash(change: change, moment: moment, objects: content, reached: state.reached))
    }
  }
}
