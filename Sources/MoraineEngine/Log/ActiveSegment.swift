import MoraineFormat
import MoraineStorage

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
  /// Up to here the log has promised durability.
  var markedOffset: Int
  /// How much to allocate next; doubles.
  var step: Int
}

/// What a writer must wait for before it can append.
enum Room {
  case enough
  case extend
  case rotate
}
