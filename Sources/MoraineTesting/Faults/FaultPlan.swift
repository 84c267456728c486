import Synchronization

/// Counts the calls for which faults are planned, and returns the fault of a call.
final class FaultPlan: Sendable {
  private let faults: [DiskFault]
  private let counts: Mutex<[Int]>

  init(_ faults: [DiskFault]) {
    self.faults = faults
    counts = Mutex(Array(repeating: 0, count: faults.count))
  }

  func fault(for event: StorageEvent) -> StorageFault? {
    counts.withLock { counts in
      var struck: StorageFault?
      for (place, fault) in faults.enumerated() where fault.matches(event) {
        counts[place] += 1
        let isNow = counts[place] == fault.occurrence
        let isLater = fault.isPermanent && counts[place] > fault.occurrence
        if struck == nil, isNow || isLater { struck = fault.effect.fault(for: event.operation) }
      }
      return struck
    }
  }
}
