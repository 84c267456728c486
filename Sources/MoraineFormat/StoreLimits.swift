/// The limits of the format, as `FileFormat.md` lists them.
public enum StoreLimits {
  /// The longest key, in bytes.
  public static let keyLengthBytes = 65_536
  /// Length of the longest key of an ordered keyspace, in bytes.
  public static let orderedKeyLengthBytes = 511
  /// The longest value, in bytes: 1 GiB.
  public static let valueLengthBytes = 1 << 30
  /// The longest record, in bytes, with its optional fields, its key and its value.
  public static let recordLengthBytes = (1 << 30) + (1 << 20)

  /// The longest segment, in bytes.
  public static let segmentLengthBytes: UInt64 = 4 << 30

  /// The most bytes that the records of one atomic batch take together. A batch of one record is
  /// exempt. With a segment header before it, the last record of such a batch still begins at an
  /// offset that an address can hold.
  public static let batchLengthBytes = (1 << 30) - (1 << 20)
  /// Every put and every delete begins before this offset in its segment.
  public static let recordOffsetBytes = 1 << 30
  /// The smallest and the largest segment size, in bytes.
  public static let segmentSizeBytes = 256...(1 << 30)
  /// The most segments that a store can have at a time.
  public static let segmentCount = (1 << 20) - 1

  /// The highest epoch, generation and segment number in a manifest.
  public static let manifestCounter: UInt64 = (1 << 63) - 1

  /// Returns the most bytes to which an LZ4 block of `stored` bytes can decompress. A greater
  /// length in a record is false.
  @inlinable
  public static func rawLengthBound(stored: Int) -> Int {
    let (product, overflow) = stored.multipliedReportingOverflow(by: 255)
    return overflow ? Int.max : product &+ 64
  }
}

/// The version of the format that this code writes, and the newest version that it reads.
public let formatVersion: UInt16 = 1

/// The alignment of records, in bytes. It allows a length prefix to be stored atomically.
public let recordAlignment = 4

@inlinable
public func aligned(_ length: Int) -> Int { (length &+ 3) & ~3 }
