import MoraineFormat
import MoraineStorage

/// The segment files of a directory, identified by their headers: the name of a file may be wrong.
struct SalvageFiles: Sendable {
  /// Undamaged headers, by the number in the name of the file.
  private(set) var headers: [SegmentNumber: SegmentHeader] = [:]
  /// The dictionaries of undamaged headers. Compaction passes a dictionary on, so several segments
  /// may have the same one.
  private(set) var dictionaries: Set<[UInt8]> = []
  private let names: [SegmentNumber]
  /// Identifier of the store whose segments are read.
  private(set) var storeID: StoreIdentifier?
  /// Whether the manifest belongs to one store, and all segments belong to another one.
  private(set) var manifestIsForeign = false

  /// - Throws: `.newerFormat`.
  init(
    _ directory: any StorageDirectory, _ listing: DirectoryContents, _ manifest: Manifest?
  ) throws(StoreError) {
    names = listing.segments.keys.sorted()
    var stores: [StoreIdentifier: Int] = [:]
    for name in names {
      guard let header = try Self.header(directory, name) else { continue }
      headers[name] = header
      if !header.dictionary.isEmpty { dictionaries.insert(header.dictionary) }
      stores[header.storeID, default: 0] += 1
    }
    storeID = manifest?.storeID
    if let storeID, stores[storeID] == nil, stores.count == 1 { manifestIsForeign = true }
    guard manifest == nil || manifestIsForeign else { return }
    // The most frequent identifier; of two equally frequent ones, always the same.
    storeID = stores.max { ($0.value, $1.key.description) < ($1.value, $0.key.description) }?.key
  }

  private static func header(
    _ directory: any StorageDirectory, _ name: SegmentNumber
  ) throws(StoreError) -> SegmentHeader? {
    do throws(StoreError) {
      let source = try SegmentFile.source(directory, name.fileName, limit: nil)
      return try source.map { (source) throws(StoreError) in
        try SegmentFile.header(source, name.fileName)
      }
    } catch {
      // Files that are damaged or cannot be read are examined later.
      guard error.code == .newerFormat else { return nil }
      throw error
    }
  }

  /// The file of each segment: the file whose header has the segment's number, or, where no header
  /// has it, a file with a damaged header whose name has the number.
  var holders: [SegmentNumber: SegmentNumber] {
    var holders: [SegmentNumber: SegmentNumber] = [:]
    for name in names where headers[name].map({ isOurs($0) && $0.number == name }) ?? false {
      holders[name] = name
    }
    for name in names {
      guard let header = headers[name], isOurs(header), holders[header.number] == nil else {
        continue
      }
      holders[header.number] = name
    }
    for name in names where headers[name] == nil && holders[name] == nil { holders[name] = name }
    return holders
  }

  func isOurs(_ header: SegmentHeader) -> Bool { storeID == nil || header.storeID == storeID }

  /// Lengths of the segments that have a successor, as the successors' headers state them.
  var lengths: [SegmentNumber: Int] {
    var lengths: [SegmentNumber: Int] = [:]
    for header in headers.values where isOurs(header) && header.predecessor.number > 0 {
      let number = SegmentNumber(rawValue: header.predecessor.number)
      lengths[number] = Int(clamping: header.predecessor.lengthBytes)
    }
    return lengths
  }

  /// Returns a segment that is younger than the manifest: its generation is higher, and the
  /// manifest lists its number or the segment contains records. The manifest is then out of date.
  /// Nil when there is no such segment.
  func youngerSegment(
    than manifest: Manifest, in directory: any StorageDirectory
  ) throws(StoreError) -> SegmentNumber? {
    if manifest.isBackup { return nil }
    let listed = Set(manifest.segments.map(\.number))
    for name in names {
      guard let header = headers[name], isOurs(header), header.generation > manifest.generation
      else { continue }
      if listed.contains(header.number) { return header.number }
      // An unpublished output of a compaction contains copies of listed records. A segment may also
      // have been created without any record.
      if !header.flags.contains(.compacted), try holdsRecords(directory, name, header) {
        return header.number
      }
    }
    return nil
  }

  private func holdsRecords(
    _ directory: any StorageDirectory, _ name: SegmentNumber, _ header: SegmentHeader
  ) throws(StoreError) -> Bool {
    let file = try storing { () throws(StorageError) in
      try directory.openFile(name.fileName, .read)
    }
    guard let file else { return false }
    let bytes = try SalvageBytes(file, limit: header.headerLength + (1 << 20)).bytes
    return bytes.dropFirst(header.headerLength).contains { $0 != 0 }
  }
}

/// The bytes of a file that the disk returns.
///
/// All bytes are in memory: with a mapping, a sector that cannot be read would end the process.
struct SalvageBytes: Sendable {
  private static let chunkBytes = 1 << 20
  private static let sectorBytes = 4096
  /// A record begins before 1 GiB, and its length is at most 1 GiB plus its fields.
  private static let limit =
    StoreLimits.recordOffsetBytes + StoreLimits.valueLengthBytes + (1 << 20)

  private(set) var bytes: [UInt8]
  /// Ranges that could not be read, with the errors. Zeros take their place.
  private(set) var unreadable: [(range: Range<Int>, error: StoreError)] = []

  /// - Parameter limit: the number of bytes to read at most; nil for the whole file.
  init(_ file: any StorageFile, limit: Int?) throws(StoreError) {
    let length = try storing { () throws(StorageError) in try file.lengthBytes() }
    let wanted = min(Int(clamping: length), limit ?? .max, Self.limit)
    bytes = [UInt8](repeating: 0, count: max(0, wanted))
    var offset = 0
    while offset < bytes.count {
      let end = min(offset + Self.chunkBytes, bytes.count)
      if read(file, offset..<end) != nil {
        for start in stride(from: offset, to: end, by: Self.sectorBytes) {
          let sector = start..<min(start + Self.sectorBytes, end)
          if let error = read(file, sector) { unreadable.append((sector, error)) }
        }
      }
      offset = end
    }
  }

  /// Returns the first error of the disk in a range; nil when the range was read.
  func problem(in range: Range<Int>) -> StoreError? {
    unreadable.first { $0.range.overlaps(range) }?.error
  }

  /// Returns the header of a record whose validity was checked before.
  func header(at offset: Int) -> RecordHeader {
    bytes.withUnsafeBytes { bytes in
      precondition(
        offset >= 0 && offset + RecordHeader.fixedLength <= bytes.count,
        "a record lies outside its segment")
      let base = bytes.baseAddress! + offset
      guard let header = RecordHeader.parse(base, length: RecordHeader.length(at: base)) else {
        fatalError("a record that was read before cannot be parsed")
      }
      return header
    }
  }

  private mutating func read(_ file: any StorageFile, _ range: Range<Int>) -> StoreError? {
    bytes.withUnsafeMutableBytes { all in
      let target = UnsafeMutableRawBufferPointer(rebasing: all[range])
      do throws(StorageError) {
        _ = try file.read(into: target, at: UInt64(range.lowerBound))
        return nil
      } catch {
        target.initializeMemory(as: UInt8.self, repeating: 0)
        return StoreError(error)
      }
    }
  }
}
