import MoraineFormat
import MoraineStorage
import Synchronization

/// The fields of the active segment that every append needs, without references.
struct AppendPosition {
  /// Slot of the active segment; -1 when no segment is open.
  var slot = -1
  /// Offset up to which records fit without a further check.
  var roomEnd = 0
  /// The same offset for puts; 0 while the space that is reserved for deletes is not full.
  var putEnd = 0
  /// Offset up to which the log has promised durability.
  var markedOffset = 0
  var isMapped = false
  /// Whether a record was written by a system call since space was last allocated.
  var hasCalled = false
  /// Number of syncs when space was last allocated.
  var syncCount: UInt64 = 0
}

/// The segment that records are appended to.
struct ActiveSegment {
  let slot: Int
  let file: any StorageFile
  let mapping: (any FileMapping)?
  /// End of the allocated part; nil where the file grows with each write.
  var allocated: Int?
  /// Offset at which the segment is full. A first unit that needs more space raises the limit, and
  /// so does an append while the next segment is being created.
  var limit: Int
  /// Offset up to which the limit can be raised: the end of the mapping.
  var growthLimit = 0
  /// Number of bytes to allocate next; doubles.
  var step: Int
  /// Offset at which to begin allocating more, so that the space exists when it is needed.
  var softEnd: Int
  /// Offset at which the next segment is to be created; `.max` when that has begun, or is not done
  /// ahead of need.
  var middle = Int.max
  /// Whether the next segment is to be created now.
  var needsSpare = false
  /// Offset at which a writer pauses, because garbage grows faster than compaction removes it.
  var pauseEnd = Int.max
  /// The allocation that is under way, if there is one.
  var ticket: ExtensionTicket?
  /// Whether the footer is written. No record follows the footer, even if the next segment cannot
  /// be created yet.
  var hasFooter = false

  static let smallestAllocation = 64 << 10
  /// Bytes kept free after the records: a sync mark may precede each record, and the footer is the
  /// last record.
  static let reservedBytes = SyncMark.recordLength + SegmentFooter.recordLength

  /// Offset at which records must end, unless more space is allocated.
  var hardEnd: Int { hasFooter ? 0 : min(limit, allocated ?? limit) - Self.reservedBytes }

  /// Offset at which appending stops until the next step has begun.
  var roomEnd: Int { min(pauseEnd, middle, allocationEnd) }

  /// Offset at which appending stops until the next allocation has begun.
  var allocationEnd: Int {
    guard let allocated, allocated < limit, ticket == nil else { return hardEnd }
    return min(hardEnd, softEnd)
  }
}

/// The step that must precede the next append.
enum AppendCapacity {
  case enough
  /// The space suffices: the writer pauses, or it is time to create the next segment.
  case pause
  /// The space suffices, and it is time to begin allocating more.
  case extendAhead
  case extend
  case rotate
}

/// The result of an allocation that runs on the allocating thread.
final class ExtensionTicket: Sendable {
  /// End of the allocated part after the allocation; 0 before, and when the allocation failed.
  let allocatedEnd = Atomic<Int>(0)

  /// Whether the allocation has succeeded. Acquiring: what the job did comes before.
  var isRedeemable: Bool { allocatedEnd.load(ordering: .acquiring) != 0 }
}

/// A job of the allocating thread: allocates more space for the active segment.
struct ExtensionWork: Sendable {
  let file: any StorageFile
  let mapping: (any FileMapping)?
  let from: Int
  let wish: Int
  let least: Int
  let prefaulting: Prefaulting

  /// - Returns: the end of the allocated part.
  func run() throws(StorageError) -> Int {
    var end = wish
    do throws(StorageError) {
      try file.allocate(from: UInt64(from), to: UInt64(wish))
    } catch {
      guard error.isNoSpace, least < wish else { throw error }
      try file.allocate(from: UInt64(from), to: UInt64(least))
      end = least
    }
    if let mapping { prefaulting.prepare(file, mapping, from: from, to: end) }
    return end
  }
}
