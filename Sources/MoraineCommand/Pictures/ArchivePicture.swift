import MoraineArchive

/// A drawing of an archive: for each checkpoint a bar over the positions up to the next one, dark
/// where each moment can be restored.
struct ArchivePicture {
  /// The newest checkpoints that are drawn.
  private static let checkpointCount = 60

  let info: ArchiveInfo
  /// The checkpoints, the newest first.
  let checkpoints: [CheckpointInfo]

  func write(to path: String) throws {
    var drawing = Drawing()
    drawing.heading(
      "Archive \(info.id): newest state of sequence \(info.sequence), position \(info.position), "
        + Moment.text(milliseconds: info.milliseconds))
    drawing.heading("Dark: each moment can be restored. Orange: this state alone. Light: removed.")
    let shown = checkpoints.prefix(Self.checkpointCount)
    let first = shown.map(\.position).min() ?? 0
    // The archive may have gone on between the requests.
    let last = max(info.position, shown.first?.position ?? 0)
    let length = Double(max(last - min(first, last), 1))
    for (index, checkpoint) in shown.enumerated() {
      let end = max(index == 0 ? last : shown[index - 1].position, checkpoint.position)
      drawing.row(
        "checkpoint \(checkpoint.number)", length: 1,
        note: "sequence \(checkpoint.sequence), "
          + Moment.text(milliseconds: checkpoint.milliseconds),
        parts: [
          part(checkpoint, from: checkpoint.position - first, to: end - first, of: length)
        ])
    }
    if checkpoints.count > shown.count {
      drawing.heading("\(checkpoints.count - shown.count) older checkpoints are not drawn.")
    }
    try drawing.write(to: path, title: "Checkpoints of a Moraine archive")
  }

  private func part(
    _ checkpoint: CheckpointInfo, from start: UInt64, to end: UInt64, of length: Double
  ) -> Drawing.Part {
    // A checkpoint without commits after it is a thin line.
    let thin = 0.004
    var part = Drawing.Part(
      start: min(Double(start) / length, 1 - thin),
      length: max(Double(end - start) / length, thin))
    switch checkpoint.extent {
    case .moments: break
    case .state: (part.length, part.color) = (thin, .second)
    case .removed: part.length = 0
    }
    return part
  }
}
