import MoraineFormat
import MoraineStorage

/// The segment files of a directory, as their own headers tell which they are: a name may be wrong.
struct SalvageFiles: Sendable {
  /// By the number in the file's name; of files whose header is whole.
  private(set) var headers: [SegmentNumber: SegmentHeader] = [:]
  /// The dictionaries that are proven: compaction hands one on.
  private(set) var dictionaries: Set<[UInt8]> = []
  private let names: [SegmentNumber]
  /// Of the store whose segments are read.
  private(set) var storeID: Identifier?
  /// Whether the manifest is of another store than all segments are.
  private(set) var manifestIsForeign = false

  /// - Throws: `.newerFormat`.
  init(
    _ directory: any StorageDirectory, _ listing: DirectoryContents, _ manifest: Manifest?
  ) throws(StoreError) {
    names = listing.segments.keys.sorted()
    var stores: [Identifier: Int] = [:]
    for name in names {
      guard let header = try Self.header(directory, name) else { continue }
      headers[name] = header
      if !header.dictionary.isEmpty { dictionaries.insert(header.dictionary) }
      stores[header.storeID, default: 0] += 1
    }
    storeID = manifest?.storeID
    if let storeID, stores[storeID] == nil, stores.count == 1 { manifestIsForeign = true }
    guard manifest == nil || manifestIsForeign else { return }
    // The most frequent; of two, always the same.
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
      // What is damaged, or cannot be read, is looked at when its turn comes.
      guard error.code == .newerFormat else { return nil }
      throw error
    }
  }

  /// Which file holds each segment: the one whose header says so, or, where that is damaged, its
  /// name.
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

  /// How long segments are that others came behind, as those say.
  var lengths: [SegmentNumber: Int] {
    var lengths: [SegmentNumber: Int] = [:]
    for header in headers.values where isOurs(header) && header.predecessor.number > 0 {
      let number = SegmentNumber(rawValue: header.predecessor.number)
      lengths[number] = Int(clamping: header.predecessor.lengthBytes)
    }
    return lengths
  }

  /// A segment that the manifest should list and does not: then it is older than the segment.
  func youngerSegment(
    than manifest: Manifest, in directory: any StorageDirectory
  ) throws(StoreError) -> SegmentNumber? {
    if manifest.isBackup { return nil }
    let listed = Set(manifest.segments.map(\.number))
    for name in names {
      guard let header = headers[name], isOurs(header), header.generation > manifest.generation
      else { continue }
      if listed.contains(header.number) { return header.number }
      // What a compaction wrote and did not publish is a copy of what is listed; and a segment may
      // have been born that nothing was written to.
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

/// The bytes of a file, as far as the disk gives them.
///
/// In memory as a whole: a mapping would end the process where a sector cannot be read.
struct SalvageBytes: Sendable {
  private static let chunkBytes = 1 << 20
  private static let sectorBytes = 4096
  /// A record begins before 1 GiB, and is not longer than that and its fields.
  private static let limit = Limits.recordOffsetBytes + Limits.valueLengthBytes + (1 << 20)

  private(set) var bytes: [UInt8]
  /// Parts that could not be read, and why. There are zeros in their place.
  private(set) var unreadable: [(range: Range<Int>, error: StoreError)] = []

  /// - Parameter limit: how much of it is wanted, at most.
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

  /// What the disk said of a part that it did not give.
  func problem(in range: Range<Int>) -> StoreError? {
    unreadable.first { $0.range.overlaps(range) }?.error
  }

  /// Of a record that is known to be one.
  func header(at offset: Int) -> RecordHeader {
    bytes.withUnsafeBytes { bytes in
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
