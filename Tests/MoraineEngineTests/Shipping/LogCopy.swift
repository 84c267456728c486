import MoraineFormat
import MoraineStorage
import SystemPackage

@testable import MoraineEngine

/// A copy of a store's log elsewhere, kept by cuts as an archive keeps it: what was appended, and
/// the whole state at one cut.
struct LogCopy {
  /// The state at a cut: how much of each segment it needs.
  struct Point {
    let manifest: Manifest
    let count: Int
    /// The appended segments up to this cut, with their lengths, in the order of the log.
    let lengths: [(segment: SegmentIdentity, length: Int)]
  }

  /// The bytes of each appended segment so far.
  private var appended: [SegmentIdentity: [UInt8]] = [:]
  private var order: [SegmentIdentity] = []
  /// The last place that was copied.
  private(set) var place: (segment: SegmentIdentity, offset: Int)?
  private(set) var points: [Point] = []
  private(set) var base: (manifest: Manifest, bytes: [SegmentNumber: [UInt8]])?

  /// Copies the whole state at a cut.
  mutating func begin(at cut: LogCut) throws {
    var bytes: [SegmentNumber: [UInt8]] = [:]
    for segment in cut.segments {
      bytes[segment.identity.number] = try segment.all()
    }
    base = (cut.manifest, bytes)
    (appended, order, points) = ([:], [], [])
    if let last = cut.segments.last(where: { !$0.isCompacted }) {
      place = (last.identity, last.lengthBytes)
    }
    points.append(Point(manifest: cut.manifest, count: cut.count, lengths: []))
  }

  /// Copies what was appended since the last cut.
  mutating func add(_ cut: LogCut, _ retired: [SegmentBytes]) throws {
    let known = Set(cut.segments.map(\.identity))
    let all = (retired.filter { !known.contains($0.identity) } + cut.segments)
      .filter {
        !$0.isCompacted && $0.entry.lastSequence > points[points.count - 1].manifest.lastSequence
      }
      .sorted { $0.entry.firstSequence < $1.entry.firstSequence }
    for segment in all {
      let start = place?.segment == segment.identity ? place?.offset ?? 0 : 0
      try segment.verify(from: start, to: segment.lengthBytes)
      let new = try segment.withBytes(start..<segment.lengthBytes) { Array($0) }
      if !order.contains(segment.identity) { order.append(segment.identity) }
      if appended[segment.identity] == nil {
        appended[segment.identity] = base?.bytes[segment.identity.number] ?? []
      }
      appended[segment.identity]?.append(contentsOf: new)
      place = (segment.identity, segment.lengthBytes)
    }
    points.append(
      Point(
        manifest: cut.manifest, count: cut.count,
        lengths: order.map { ($0, appended[$0]?.count ?? 0) }))
  }

  /// Puts the state at a cut together.
  func restore(
    _ point: Point, to path: FilePath, on storage: any Storage
  ) async throws -> RestoreReport {
    guard let base else { fatalError("the copy has no base") }
    var manifest = base.manifest
    let staged = try await StagedStore.begin(at: path, on: storage, manifest)
    for (number, bytes) in base.bytes { try await staged.write(bytes, to: number, at: 0) }
    for (segment, length) in point.lengths {
      let bytes = Array((appended[segment] ?? [])[..<length])
      try await staged.write(bytes, to: segment.number, at: 0)
      let entry = try await staged.entry(of: segment, lengthBytes: length)
      if let known = manifest.segments.firstIndex(where: { $0.number == segment.number }) {
        manifest.segments[known] = entry
      } else {
        manifest.segments.append(entry)
      }
    }
    manifest.nextSegmentNumber = point.manifest.nextSegmentNumber
    manifest.lastSequence = point.manifest.lastSequence
    manifest.digest = point.manifest.digest
    manifest.keyspaces = point.manifest.keyspaces
    manifest.ordered = point.manifest.ordered
    return try await staged.finish(manifest)
  }
}

extension SegmentBytes {
  func all() throws -> [UInt8] { try withBytes(0..<lengthBytes) { Array($0) } }
}
