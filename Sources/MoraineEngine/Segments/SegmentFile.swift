import MoraineFormat
import MoraineStorage
import SystemPackage

/// Functions that read the file of one segment.
enum SegmentFile {
  /// Returns the bytes of a segment file, up to a limit; nil when the file is missing.
  static func source(
    _ directory: any StorageDirectory, _ name: String, limit: Int?
  ) throws(StoreError) -> ByteSource? {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let file else { return nil }
    let actual = Int(clamping: try storing { () throws(StorageError) in try file.lengthBytes() })
    return ByteSource(file: file, name: name, length: min(actual, limit ?? actual), mapping: nil)
  }

  static func header(_ source: ByteSource, _ name: String) throws(StoreError) -> SegmentHeader {
    let first = min(source.length, SegmentHeader.fixedLength)
    let start = UnsafeRawBufferPointer(start: try source.bytes(at: 0, count: first), count: first)
    let claim = try formatting(name) { () throws(FormatError) in
      try SegmentHeader.claimedLength(start)
    }
    let count = min(claim, source.length)
    let bytes = UnsafeRawBufferPointer(start: try source.bytes(at: 0, count: count), count: count)
    return try formatting(name) { () throws(FormatError) in try SegmentHeader(decoding: bytes) }
  }

  /// Maps a file. Returns nil when the kernel has no more mappings; reads then use the file.
  static func map(
    _ file: any StorageFile, _ length: Int, _ access: FileAccess = .read
  ) throws(StoreError) -> (any FileMapping)? {
    do throws(StorageError) {
      return try file.map(lengthBytes: length, access)
    } catch {
      if error.errno == .noMemory || error.isUnsupported { return nil }
      throw StoreError(error)
    }
  }
}
