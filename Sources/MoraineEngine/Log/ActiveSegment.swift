import MoraineFormat
import MoraineStorage

/// Where the next record goes: what every append needs of the active segment.
struct AppendPlace {
  /// The slot of the segment; -1 when none is open.
  var slot = -1
  /// Records may reach up to here: the room for a mark and the footer is kept free.
  var roomEnd = 0
  /// Up to here the log has promised durability.
  var markedOffset = 0
  var isMapped = false
}

/// The segment that is being appended to.
struct ActiveSegment {
  let slot: Int
  let file: any StorageFile
  let mapping: (any FileMapping)?
  /// Nil where the file grows with each write.
  var allocated: Int?
  /// Where it is full. A larger unit makes it larger, if it is the first.
  var limit: Int
  let headerLength: Int
  /// How much to allocate next; doubles.
  var step: Int

  /// Where records must end.
  var roomEnd: Int {
    min(limit, allocated ?? limit) - SyncMark.recordLength - SegmentFooter.recordLength
  }
}

/// What a writer must wait for before it can append.
enum Room {
  case enough
  case extend
  case rotate
}
