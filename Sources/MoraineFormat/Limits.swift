/// The limits of the format, as `FileFormat.md` lists them.
public enum Limits {
  /// The longest key, in bytes.
  public static let keyLengthBytes = 65_536
  /// The longest value, in bytes: 1 GiB.
  public static let valueLengthBytes = 1 << 30
  /// No record is longer, whatever its optional fields, key and value, in bytes.
  public static let recordLengthBytes = (1 << 30) + (1 << 20)

  /// The longest segment, in bytes.
  public static let segmentLengthBytes: UInt64 = 4 << 30

  /// All records of one atomic batch together, in bytes, unless the batch has one record. With the
  /// header before them, the last one still begins where an address can name it.
  public static let batchLengthBytes = (1 << 30) - (1 << 20)
  /// A put or a delete begins before this place in its segment.
  public static let recordOffsetBytes = 1 << 30
  /// The smallest and the largest segment size, in bytes.
  public static let segmentSizeBytes = 256...(1 << 30)
  /// How many segments a store can have at a time.
  public static let segmentCount = (1 << 20) - 1

  /// Where epochs, generations and segment numbers of a manifest end.
  public static let manifestCounter: UInt64 = (1 << 63) - 1

  /// What an LZ4 block of `stored` bytes can decompress to at most; a larger claim is a lie.
  @inlinable
  public static func rawLengthBound(stored: Int) -> Int {
    let (product, overflow) = stored.multipliedReportingOverflow(by: 255)
    return overflow ? Int.max : product &+ 64
  }
}

/// The version of the format this code writes, and the newest it reads.
public let formatVersion: UInt16 = 1

/// Records begin at multiples of this, so that a length prefix can be stored atomically.
public let recordAlignment = 4

@inlinable
public func aligned(_ length: Int) -> Int { (length &+ 3) & ~3 }
