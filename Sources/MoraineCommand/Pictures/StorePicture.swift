import Moraine
import MoraineFormat

/// A drawing of a store: a bar for each segment, dark where its records are live; a bar for each
/// keyspace and its indexes; and for each ordered keyspace where its records lie in the log.
struct StorePicture {
  /// The number of parts into which the drawing divides each segment.
  static let partCount = 96
  private static let (keyColumns, logRows) = (100, 12)

  let segments: [SegmentLiveness]
  let figures: KeyspaceFigures
  /// The places of the records of ordered keyspaces, by keyspace.
  private let places: [(keyspace: KeyspaceStatistics, places: KeyOrderPlaces)]
  let manifest: Manifest

  init(_ store: Store, _ manifest: Manifest) async throws {
    self.manifest = manifest
    segments = try await store.segmentLiveness(partCount: Self.partCount)
    figures = try await KeyspaceFigures(store)
    var places: [(KeyspaceStatistics, KeyOrderPlaces)] = []
    for keyspace in figures.named where keyspace.isOrdered && keyspace.count > 0 {
      let found = try await store.keyOrderPlaces(
        in: keyspace.name, columns: min(Self.keyColumns, keyspace.count), rows: Self.logRows)
      if let found { places.append((keyspace, found)) }
    }
    self.places = places
  }

  func write(to path: String) throws {
    var drawing = Drawing()
    drawSegments(&drawing)
    if figures.areWorthShowing { drawKeyspaces(&drawing) }
    for (keyspace, places) in places { draw(places, of: keyspace, &drawing) }
    if let sentence = manifest.archiveSentence { drawing.heading(sentence) }
    try drawing.write(to: path, title: "Segments and keyspaces of a Moraine store")
  }

  private func drawSegments(_ drawing: inout Drawing) {
    let disk = segments.reduce(0) { $0 + $1.segment.lengthBytes }
    let live = segments.reduce(0) { $0 + $1.segment.liveBytes }
    let share = disk == 0 ? 100 : live * 100 / disk
    drawing.heading(
      "\(Units.counted(segments.count, "segment")), \(Units.bytes(disk)), \(share) % of it live. "
        + "Dark: live. Light: garbage.")
    let longest = Double(max(segments.map(\.segment.lengthBytes).max() ?? 1, 1))
    for liveness in segments {
      let segment = liveness.segment
      let part = 1 / Double(max(liveness.shares.count, 1))
      let parts = liveness.shares.enumerated().filter { $0.element > 0.005 }.map { index, share in
        Drawing.Part(start: part * Double(index), length: part, opacity: share)
      }
      drawing.row(
        "\(segment.number) \(SegmentList.kind(segment))",
        length: Double(segment.lengthBytes) / longest,
        note: "\(Units.bytes(segment.lengthBytes)), "
          + "\(Int((segment.liveRatio * 100).rounded())) % live", parts: parts)
    }
  }

  private func drawKeyspaces(_ drawing: inout Drawing) {
    drawing.heading("Keyspaces, by their live bytes, each with the index that finds its keys.")
    for keyspace in figures.named {
      drawing.row(
        Drawing.label(KeyspaceFigures.name(keyspace)), length: figures.share(keyspace),
        note: KeyspaceFigures.note(keyspace), parts: [Drawing.Part(length: 1)])
      guard let (holder, indexes) = figures.indexes(of: keyspace) else { continue }
      let all = Double(max(indexes.reduce(0) { $0 + $1.entryCount }, 1))
      var start = 0.0
      var parts: [Drawing.Part] = []
      for (number, index) in indexes.enumerated() {
        let length = Double(index.entryCount) / all
        parts.append(
          Drawing.Part(
            start: start, length: length, color: .second,
            opacity: number.isMultiple(of: 2) ? 1 : 0.6))
        start += length
      }
      drawing.row(
        "its indexes", length: figures.share(holder),
        note: "\(Units.bytes(holder.liveBytes)): "
          + indexes.map { KeyspaceFigures.note($0) }.joined(separator: ", "),
        parts: parts)
    }
  }

  private func draw(
    _ places: KeyOrderPlaces, of keyspace: KeyspaceStatistics, _ drawing: inout Drawing
  ) {
    drawing.heading(
      "\(KeyspaceFigures.name(keyspace)): from left to right its keys in their order, "
        + "from top to bottom the log, the oldest bytes first.")
    let spread = places.counts.map { column in column.count { $0 > 0 } }
    let mean = Double(spread.reduce(0, +)) / Double(max(spread.count, 1))
    drawing.grid(
      "place in the log", places.counts,
      note: "neighbours lie in \(Units.ratio(mean)) of \(Self.logRows) parts")
  }
}
