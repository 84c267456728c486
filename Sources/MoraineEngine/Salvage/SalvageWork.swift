import MoraineFormat
import MoraineStorage
import SystemPackage

/// Reads what is whole of a damaged store. Changes nothing there.
///
/// Its calls block: they are made from a thread of its own, one at a time.
struct SalvageWork: Sendable {
  /// One of the store's segments, and what the manifest says of it.
  struct Plan: Sendable {
    let number: SegmentNumber
    let entry: Manifest.Segment?
    var promise = 0
    var name: String { number.fileName }
    /// Where its records end; nil where only the file knows.
    var limit: Int? {
      entry.flatMap { $0.isSealed ? Int(clamping: $0.lengthBytes) : nil }
    }
  }

  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  let manifest: Manifest?
  let listing: Listing
  /// Of the store whose segments are read.
  private(set) var storeID: Identifier?
  /// What segments with a whole header have.
  private(set) var dictionaries: Set<[UInt8]> = []
  /// Read together, one after the other: their sequence numbers overlap, or nobody knows.
  private(set) var groups: [[Plan]] = []
  private(set) var report = SalvageReport()

  /// - Throws: `.notAStore`, `.locked`, `.newerFormat`, `.io`.
  init(_ storage: any Storage, _ path: FilePath) throws(StoreError) {
    (directory, lock) = try RestoreWork.openSource(path, of: storage, "there is no store here")
    listing = try Listing(directory)
    var damage: StoreError?
    do throws(StoreError) {
      manifest = try Opener.readManifest(directory, listing)
    } catch {
      guard error.code != .newerFormat, error.code != .notAStore, !listing.segments.isEmpty else {
        throw error
      }
      damage = error
      manifest = nil
    }
    guard manifest != nil || damage != nil else {
      throw StoreError(.notAStore, "there is no store here", file: path.string)
    }
    if let damage {
      report.losses.append(
        SalvageLoss(
          kind: .manifest, file: Manifest.fileName, offset: damage.offset ?? 0, lengthBytes: 0,
          reason: damage.message))
    }
    storeID = manifest?.storeID
    try lookAtHeaders()
    if let manifest { plan(manifest) } else { try planWithoutManifest() }
  }

  func free() { lock?.unlock() }

  /// The name of a keyspace, or one that tells its number where no manifest does.
  func name(ofKeyspace id: UInt16) -> String {
    if id == 0 { return "" }
    return manifest?.keyspaces.first { $0.id == id }?.name ?? "keyspace-\(id)"
  }

  func bytes(of name: String) throws(StoreError) -> SalvageBytes? {
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    return try file.map { (file) throws(StoreError) in try SalvageBytes(file) }
  }

  /// In the order of the log, each as long as the manifest says.
  private mutating func plan(_ manifest: Manifest) {
    var open: [Plan] = []
    for entry in manifest.segments {
      var plan = Plan(number: entry.number, entry: entry)
      if manifest.watermarkSegment == entry.number.rawValue {
        plan.promise = Int(clamping: manifest.watermarkOffset)
      }
      if entry.isSealed { groups.append([plan]) } else { open.append(plan) }
    }
    if !open.isEmpty { groups.append(open) }
    let listed = Set(manifest.segments.map(\.number))
    report.ignoredFiles = listing.segments.keys.filter { !listed.contains($0) }.sorted()
      .map(\.fileName)
  }

  /// What headers tell of the store, and the dictionaries that another segment may need.
  private mutating func lookAtHeaders() throws(StoreError) {
    var stores: [Identifier: Int] = [:]
    for number in listing.segments.keys.sorted() {
      guard let header = try header(of: number) else { continue }
      stores[header.storeID, default: 0] += 1
      if !header.dictionary.isEmpty { dictionaries.insert(header.dictionary) }
    }
    guard manifest == nil else { return }
    // The most frequent; the smaller one of two, so that it is always the same.
    storeID = stores.max { ($0.value, $1.key.description) < ($1.value, $0.key.description) }?.key
  }

  private func header(of number: SegmentNumber) throws(StoreError) -> SegmentHeader? {
    do throws(StoreError) {
      let source = try SegmentOpening.source(
        directory, number.fileName, limit: nil, mapped: false)
      return try source.map { (source) throws(StoreError) in
        try SegmentOpening.header(source, number.fileName)
      }
    } catch {
      // What is damaged, or cannot be read, is looked at when its turn comes.
      guard error.code == .newerFormat else { return nil }
      throw error
    }
  }

  /// By their first sequence numbers; those that overlap together: compaction may have been at
  /// work, and its output has in part the same records as its inputs.
  private mutating func planWithoutManifest() throws(StoreError) {
    var ranges: [(plan: Plan, first: UInt64, last: UInt64)] = []
    for number in listing.segments.keys.sorted() {
      let plan = Plan(number: number, entry: nil)
      guard let segment = try load(plan) else { continue }
      if let storeID, let other = segment.head?.storeID, other != storeID {
        report.ignoredFiles.append(plan.name)
        continue
      }
      let first = segment.survivors.first?.sequence ?? 0
      ranges.append((plan, first, segment.survivors.last?.sequence ?? first))
    }
    var end: UInt64 = 0
    for range in ranges.sorted(by: { $0.first < $1.first }) {
      if groups.isEmpty || range.first > end { groups.append([]) }
      groups[groups.count - 1].append(range.plan)
      end = max(end, range.last)
    }
  }
}
