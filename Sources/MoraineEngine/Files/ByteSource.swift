import MoraineFormat
import MoraineStorage

/// The bytes of one segment in order, read through its mapping or a window at a time.
final class ByteSource {
  private static let windowBytes = 1 << 20
  private static let firstBytes = 4096
  /// Nil where a mapping has all bytes.
  private let file: (any StorageFile)?
  private let name: String
  private let base: UnsafeMutableRawPointer?
  let length: Int
  private var window = UnsafeMutableRawBufferPointer.allocate(byteCount: 0, alignment: 16)
  private var windowStart = 0
  private var windowCount = 0

  init(file: (any StorageFile)?, name: String, length: Int, mapping: (any FileMapping)?) {
    assert(file != nil || mapping != nil, "bytes have neither a file nor a mapping")
    self.file = file
    self.name = name
    self.length = length
    base = mapping?.base
    assert(length <= mapping?.lengthBytes ?? length, "a mapping is shorter than its segment")
  }

  deinit { window.deallocate() }

  /// Bytes of memory that the source holds now, besides a mapping.
  var heldBytes: Int { window.count }

  /// Frees the window. The next call reads again.
  func release() {
    window.deallocate()
    window = .allocate(byteCount: 0, alignment: 16)
    (windowStart, windowCount) = (0, 0)
  }

  /// Returns `count` bytes at `offset`, valid until the next call. The caller knows that they lie
  /// within ``length``.
  func bytes(at offset: Int, count: Int) throws(StoreError) -> UnsafeRawPointer {
    assert(
      offset >= 0 && count >= 0 && offset + count <= length, "bytes lie outside of their source")
    if let base { return UnsafeRawPointer(base + offset) }
    if offset < windowStart || offset + count > windowStart + windowCount {
      // The first read is for a header. Of many segments nothing else is needed.
      let ahead = windowCount == 0 ? Self.firstBytes : Self.windowBytes
      try load(at: offset, count: min(length - offset, max(count, ahead)))
    }
    guard let start = window.baseAddress else { fatalError("the window of a byte source is empty") }
    return UnsafeRawPointer(start + (offset - windowStart))
  }

  /// Returns the checksum of the last bytes before `end`, at most ``CheckpointHeader/tailLength``
  /// of them.
  ///
  /// - Parameter first: the earliest offset at which these bytes may begin.
  func tailChecksum(from first: Int, to end: Int) throws(StoreError) -> UInt32 {
    let start = max(first, end - CheckpointHeader.tailLength)
    guard start < end else { return Checksum.of([]) }
    let bytes = try bytes(at: start, count: end - start)
    return Checksum.of(UnsafeRawBufferPointer(start: bytes, count: end - start))
  }

  private func load(at offset: Int, count: Int) throws(StoreError) {
    guard let file else { preconditionFailure("bytes of a mapping are read from no file") }
    // A read that fails leaves other bytes in the window, or none.
    windowCount = 0
    if window.count < count {
      window.deallocate()
      window = .allocate(byteCount: count, alignment: 16)
    }
    let target = UnsafeMutableRawBufferPointer(rebasing: window[..<count])
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(offset))
    }
    guard got == count else {
      throw StoreError.corrupted(
        "the file became shorter while it was read", name, at: offset + got)
    }
    windowStart = offset
    windowCount = count
  }
}

/// Open files of segments that are read without a mapping. Their number is bounded.
///
/// One thread at a time uses the cache: the one that has the segment table.
final class FileCache {
  static let limit = 64
  private let directory: any StorageDirectory
  /// Whether descriptors of unused files may be returned to the system, because no other process
  /// removes the files.
  let mayPark: Bool
  private var files: [Int: any StorageFile] = [:]
  private var order: [Int] = []

  init(directory: any StorageDirectory, mayPark: Bool) {
    self.directory = directory
    self.mayPark = mayPark
  }

  func keep(_ file: any StorageFile, for slot: Int) {
    if files.updateValue(file, forKey: slot) == nil { order.append(slot) }
    while order.count > Self.limit { files[order.removeFirst()] = nil }
    assert(order.count == files.count, "the order of the open files is not that of the files")
  }

  func forget(_ slot: Int) {
    if files.removeValue(forKey: slot) != nil { order.removeAll { $0 == slot } }
    assert(order.count == files.count, "a forgotten file was in the order more or less than once")
  }

  func file(for slot: Int, named name: String) throws(StoreError) -> any StorageFile {
    if let file = files[slot] { return file }
    let opened = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard let opened else {
      throw StoreError(.corrupted, "a segment file is missing; restore it", file: name)
    }
    if mayPark { opened.allowParking() }
    keep(opened, for: slot)
    return opened
  }
}

/// The unit in which file systems allocate space.
enum FileBlock {
  static let lengthBytes = 4096

  /// Returns a length rounded up to whole blocks.
  static func covering(_ length: Int) -> Int { (length + lengthBytes - 1) & ~(lengthBytes - 1) }
}

/// The way the pages ahead of the log are made present, so that no append waits for a page.
enum Prefaulting {
  /// The pages are not made present. Present pages are dirty, so that a sync writes them twice.
  /// This suits a store where each sync has little to write, or where records are written by system
  /// calls.
  case none
  /// One page fault for each page, taken ahead. This suits a store where other processes may write
  /// to the same pages.
  case touching
  /// Zeros, written to many pages at a time. This takes less than a quarter of the time of
  /// `touching`, and the sync after it takes not much more than half of its time (measured on ext4
  /// of Linux 6.18).
  case filling

  func prepare(_ file: any StorageFile, _ mapping: any FileMapping, from start: Int, to end: Int) {
    switch self {
    case .none: break
    case .touching: mapping.prefault(from: start, to: end)
    case .filling: file.prefill(mapping, from: start, to: end)
    }
  }
}
