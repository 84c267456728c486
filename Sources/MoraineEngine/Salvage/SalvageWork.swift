import MoraineFormat
import MoraineStorage
import SystemPackage

/// Reads what is whole of a damaged store. Changes nothing there.
///
/// Its calls block: they are made from a thread of its own, one at a time.
struct SalvageWork: Sendable {
  /// One of the store's segments, and what is known of it.
  struct Plan: Sendable {
    let number: SegmentNumber
    /// The number in the name of the file that holds it; nil when none does.
    let file: SegmentNumber?
    let entry: Manifest.Segment?
    /// How far it was durable, as the manifest says.
    var promise = 0
    /// How long it is, as the segment behind it says.
    var knownLength: Int?
    /// The lowest and the highest sequence number that its operations can have.
    var sequences: (lowest: UInt64, highest: UInt64) = (0, .max)

    var name: String { (file ?? number).fileName }
    var isSealed: Bool { entry?.isSealed ?? false }
    /// Where its records end; nil where only the file knows.
    var limit: Int? {
      if let entry, entry.isSealed { return Int(clamping: entry.lengthBytes) }
      return knownLength
    }
  }

  let directory: any StorageDirectory
  let lock: (any StorageFile)?
  /// What names the keyspaces.
  let manifest: Manifest?
  let listing: Listing
  let files: SalvageFiles
  /// Read together, one after the other: their sequence numbers overlap, or nobody knows.
  private(set) var groups: [[Plan]] = []
  private(set) var report = SalvageReport()

  /// - Throws: `.notAStore`, `.locked`, `.newerFormat`, `.io`.
  init(_ storage: any Storage, _ path: FilePath) throws(StoreError) {
    (directory, lock) = try RestoreWork.openSource(path, of: storage, "there is no store here")
    listing = try Listing(directory)
    var problem: String?
    var manifest: Manifest?
    do throws(StoreError) {
      manifest = try Opener.readManifest(directory, listing)
      guard manifest != nil else {
        throw StoreError(.notAStore, "there is no store here", file: path.string)
      }
    } catch {
      guard error.code != .newerFormat, error.code != .notAStore, !listing.segments.isEmpty else {
        throw error
      }
      problem = error.message
    }
    files = try SalvageFiles(directory, listing, manifest)
    if files.manifestIsForeign {
      problem = "it is another store's than all segments are; it was not heeded"
      manifest = nil
    } else if let manifest,
      let younger = try files.youngerSegment(than: manifest, in: directory)
    {
      problem = "it is older than segment \(younger); the segments were read without it"
    }
    self.manifest = manifest
    if let problem {
      report.losses.append(
        SalvageLoss(
          kind: .manifest, file: Manifest.fileName, offset: 0, lengthBytes: 0, reason: problem))
    }
    if let manifest, problem == nil { plan(manifest) } else { try planWithoutManifest() }
    let used = Set(groups.joined().compactMap(\.file))
    let ignored = Set(listing.segments.keys.filter { !used.contains($0) })
    report.unlistedSegments = try unlistedSegments(ignored)
    report.ignoredFiles = ignored.sorted().map(\.fileName)
  }

  func free() { lock?.unlock() }

  /// The name of a keyspace, or one that tells its number where no manifest does.
  func name(ofKeyspace id: UInt16) -> String {
    if id == 0 { return "" }
    return manifest?.keyspaces.first { $0.id == id }?.name ?? "keyspace-\(id)"
  }

  /// Each as long as the manifest says. The order is that of the sequence numbers, whatever the
  /// order of the list is.
  private mutating func plan(_ manifest: Manifest) {
    let (holders, lengths) = (files.holders, files.lengths)
    var sealed: [(plan: Plan, first: UInt64, last: UInt64)] = []
    var open: [Plan] = []
    var last: UInt64 = 0
    for entry in manifest.segments {
      var plan = Plan(
        number: entry.number, file: holders[entry.number], entry: entry,
        knownLength: lengths[entry.number])
      if manifest.watermarkSegment == entry.number.rawValue {
        plan.promise = Int(clamping: manifest.watermarkOffset)
      }
      if entry.isSealed {
        // Without any operations, there is none that it can have.
        let isEmpty = entry.recordCount == 0
        plan.sequences =
          isEmpty ? (1, 0) : (entry.firstSequence.rawValue, entry.lastSequence.rawValue)
        last = max(last, entry.lastSequence.rawValue)
        sealed.append((plan, entry.firstSequence.rawValue, entry.lastSequence.rawValue))
      } else {
        open.append(plan)
      }
    }
    group(sealed)
    // Nothing in them comes before what is sealed.
    for index in open.indices { open[index].sequences.lowest = last &+ 1 }
    if !open.isEmpty { groups.append(open) }
  }

  /// By their first sequence numbers; those that overlap together: compaction may have been at
  /// work, and its output has in part the same records as its inputs.
  private mutating func planWithoutManifest() throws(StoreError) {
    let lengths = files.lengths
    var ranges: [(plan: Plan, first: UInt64, last: UInt64)] = []
    for (number, file) in files.holders.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let plan = Plan(number: number, file: file, entry: nil, knownLength: lengths[number])
      guard let segment = try load(plan) else { continue }
      let first = segment.survivors.first?.sequence ?? 0
      ranges.append((plan, first, segment.survivors.last?.sequence ?? first))
    }
    group(ranges)
  }

  /// Puts together what overlaps, and the rest in the order of the sequence numbers.
  private mutating func group(_ ranges: [(plan: Plan, first: UInt64, last: UInt64)]) {
    var end: UInt64 = 0
    for range in ranges.sorted(by: { $0.first < $1.first }) {
      if groups.isEmpty || range.first > end { groups.append([]) }
      groups[groups.count - 1].append(range.plan)
      end = max(end, range.last)
    }
  }

  /// Intact segments of this store that the manifest does not list. They are not taken over: that
  /// they are not listed may be right, and what they hold may have been overwritten or deleted.
  private func unlistedSegments(_ names: Set<SegmentNumber>) throws(StoreError) -> [UnlistedSegment]
  {
    var result: [UnlistedSegment] = []
    for name in names.sorted() {
      guard let header = files.headers[name], files.isOurs(header),
        let segment = try load(Plan(number: header.number, file: name, entry: nil)),
        let first = segment.survivors.first, let last = segment.survivors.last
      else { continue }
      result.append(
        UnlistedSegment(
          file: name.fileName, recordCount: UInt64(segment.survivors.count),
          firstSequence: SequenceNumber(rawValue: first.sequence),
          lastSequence: SequenceNumber(rawValue: last.sequence)))
    }
    return result
  }
}
