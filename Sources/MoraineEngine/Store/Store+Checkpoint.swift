import MoraineFormat
import MoraineStorage

extension Store {
  /// Bytes of the log that opening would have to replay.
  private var bytesSinceCheckpoint: UInt64 {
    guard engine != nil else { return 0 }
    return engine!.report.replayedBytes &+ engine!.appendedBytes &+ compaction.writtenBytes
      &- checkpoints.coveredBytes
  }

  /// In the background a checkpoint is due when replaying would take about as long as replaying
  /// eight times the index's size: so its cost stays a small share of what is written.
  var isCheckpointDue: Bool {
    guard engine != nil, !opener.configuration.isReadOnly else { return false }
    let floor = UInt64(opener.configuration.checkpointFloorBytes)
    if floor == 0 { return bytesSinceCheckpoint > 0 }
    return bytesSinceCheckpoint >= max(floor &* 32, UInt64(engine!.index.byteCount) &* 8)
  }

  /// At the end it is worth its cost sooner.
  var isCheckpointWorthItAtClose: Bool {
    guard engine != nil else { return false }
    let floor = UInt64(opener.configuration.checkpointFloorBytes)
    if floor == 0 { return bytesSinceCheckpoint > 0 }
    return bytesSinceCheckpoint >= max(floor, UInt64(engine!.index.byteCount) / 2)
  }

  /// Writes a checkpoint of the index as it is now. No compaction is under way.
  ///
  /// One that cannot be begun, for want of space perhaps, is left out: it is only a shortcut.
  func writeCheckpoint(on runner: any JobRunner) async throws(StoreError) {
    try await writeImage(on: runner)
    // Pages that changed beside the image go home now that it is gone, a quarter megabyte at a
    // time.
    while engine != nil, engine!.index.tend(pages: 64) { await Task.yield() }
  }

  private func writeImage(on runner: any JobRunner) async throws(StoreError) {
    guard engine != nil, !pipeline.hasPoison else { return }
    // In parts, so that others get their turn: at a hundred million keys it is more than a
    // gigabyte.
    while engine != nil, try engine!.validateNextPages() { await Task.yield() }
    try await catchUpAsWriter()
    guard engine != nil else { return }
    let image = try engine!.checkpointImage()
    let written = engine!.report.replayedBytes &+ engine!.appendedBytes &+ compaction.writtenBytes
    let name = engine!.checkpointName()
    let directory = engine!.directoryHandle()
    let pipeline = pipeline
    try await pipeline.waitUntilAllDurable()
    let began = SystemClock.monotonicNanoseconds()
    do throws(StoreError) {
      try await runner.run { () throws(StoreError) in
        try CheckpointFile.write(image, as: name, directory, pipeline)
      }
      checkpoints.recordWriting(lengthBytes: UInt64(image.lengthBytes), covering: written)
      let elapsed = SystemClock.monotonicNanoseconds() - began
      tell(.checkpointWritten(lengthBytes: UInt64(image.lengthBytes), elapsedNanoseconds: elapsed))
      // Those that cannot be removed now are remembered, and go with the next one.
      if isShared {
        checkpoints.names = try DirectoryContents(directory).checkpoints.map(FileName.checkpoint)
      }
      let older = checkpoints.names.filter { $0 != name }
      checkpoints.names = older + [name]
      try await runner.run { () throws(StoreError) in try CheckpointFile.remove(older, directory) }
      checkpoints.names = [name]
    } catch {
      if pipeline.hasPoison { throw error }
      checkpoints.recordFailure(error)
      tell(.checkpointFailed(error))
    }
  }
}
