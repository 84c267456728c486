import MoraineFormat
import MoraineStorage

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
