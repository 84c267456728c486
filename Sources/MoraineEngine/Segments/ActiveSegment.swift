import MoraineFormat
import MoraineStorage
import Synchronization

/// Where the next record goes: what every append needs of the active segment, and no references.
struct AppendPosition {
  /// The slot of the segment; -1 when none is open.
  var slot = -1
  /// Records may reach up to here without a further question.
  var roomEnd = 0
  /// The same for puts; 0 while the space that deletes were promised is not kept.
  var putEnd = 0
  /// Up to here the log has promised durability.
  var markedOffset = 0
  var isMapped = false
  /// Whether a record was written by a call since space was last allocated.
  var hasCalled = false
  /// How many syncs there had been then.
  var syncCount: UInt64 = 0
}

/// The segment that is being appended to.
struct ActiveSegment {
  let slot: Int
  let file: any StorageFile
  let mapping: (any FileMapping)?
  /// Nil where the file grows with each write.
  var allocated: Int?
  /// Where it is full. A larger unit makes it larger, if it is the first.
  let limit: Int
  /// How much to allocate next; doubles.
  var step: Int
  /// Where to begin allocating more, so that it is there when it is needed.
  var softEnd: Int
  /// More space on its way.
  var ticket: ExtensionTicket?
  /// It is full; nothing comes behind the footer, even if the next segment cannot be born yet.
  var hasFooter = false

  static let smallestAllocation = 64 << 10
  /// Kept free behind the records: a mark may precede each, and the footer is the last.
  static let reservedBytes = SyncMark.recordLength + SegmentFooter.recordLength

  /// Where records must end, unless more is allocated.
  var hardEnd: Int { hasFooter ? 0 : min(limit, allocated ?? limit) - Self.reservedBytes }

  /// Where appending must stop for a moment.
  var roomEnd: Int {
    guard let allocated, allocated < limit, ticket == nil else { return hardEnd }
    return min(hardEnd, softEnd)
  }
}

/// What must happen before a writer can append.
enum AppendCapacity {
  case enough
  /// There is room, and it is time to begin allocating more.
  case extendAhead
  case extend
  case rotate
}

/// More of a segment being allocated on the committing thread.
final class ExtensionTicket: Sendable {
  /// Where the allocated part ends when that is done; 0 before, and when it failed.
  let allocatedEnd = Atomic<Int>(0)
}

/// Allocates more of the active segment, on the committing thread.
struct ExtensionWork: Sendable {
  let file: any StorageFile
  let mapping: (any FileMapping)?
  let from: Int
  let wish: Int
  let least: Int
  let prefaulting: Prefaulting

  /// - Returns: where the allocated part ends now.
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
