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
    _ directory: any StorageDirectory, _ listing: Listing, _ manifest: Manifest?
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
      let source = try SegmentOpening.source(directory, name.fileName, limit: nil, mapped: false)
      return try source.map { (source) throws(StoreError) in
        try SegmentOpening.header(source, name.fileName)
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
