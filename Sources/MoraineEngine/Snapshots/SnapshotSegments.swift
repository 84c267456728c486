import MoraineFormat
import MoraineStorage

/// The segments of a snapshot. Their mappings exist as long as this value.
struct SnapshotSegments: ~Copyable, RecordSource {
  let count: Int
  let views: UnsafeMutablePointer<SegmentView>
  let hashKey: HashKey
  /// The slots in the order of the log.
  let order: [Int]
  let files: SnapshotFiles
  private let infos: [SegmentInfo]

  init(_ table: borrowing SegmentTable, _ directory: any StorageDirectory) {
    count = table.count
    views = .allocate(capacity: max(1, count))
    views.initialize(from: table.views, count: count)
    infos = table.infos
    hashKey = table.hashKey
    order = table.readingOrder
    files = SnapshotFiles(directory, mayPark: table.files.mayPark)
  }

  deinit { views.deallocate() }

  /// Whether all segments are mapped.
  var isMapped: Bool { order.allSatisfy { views[$0].base != nil } }

  func fileName(_ slot: Int) -> String { infos[slot].number.fileName }

  func dictionary(of slot: Int) -> [UInt8] { infos[slot].dictionary }

  func mapping(of slot: Int) -> (any FileMapping)? { infos[slot].mapping }

  func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
    let bytes = try files.read(
      count, at: address.offset, of: address.slot, named: fileName(address.slot))
    guard let bytes else { throw damaged(address, "the file ends before its last record") }
    return bytes
  }

  func valueWithDictionary(
    _ record: RecordReference, at address: Address
  ) throws(StoreError) -> [UInt8] {
    try value(of: record, at: address, dictionary: dictionary(of: address.slot))
  }
}

/// The open files of a snapshot whose segments are not mapped, and the buffer for their bytes. One
/// reader at a time uses them: the reader holds `turn` until it has used the bytes.
final class SnapshotFiles {
  private let files: FileCache
  private let scratch = ScratchBuffer()

  init(_ directory: any StorageDirectory, mayPark: Bool) {
    files = FileCache(directory: directory, mayPark: mayPark)
  }

  /// - Returns: nil when the file ends before the last of the bytes.
  func read(
    _ count: Int, at offset: Int, of slot: Int, named name: String
  ) throws(StoreError) -> UnsafeRawPointer? {
    let target = scratch.reserve(count)
    let file = try files.file(for: slot, named: name)
    let got = try storing { () throws(StorageError) in
      try file.read(into: target, at: UInt64(offset))
    }
    return got == count ? target.baseAddress.map { UnsafeRawPointer($0) } : nil
  }
}
