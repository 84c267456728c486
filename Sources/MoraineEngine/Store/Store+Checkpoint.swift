import MoraineFormat
import MoraineStorage

extension Store {
  /// Number of bytes of the log that an opening would have to replay.
  var bytesSinceCheckpoint: UInt64 {
    guard engine != nil else { return 0 }
    return engine!.report.replayedBytes &+ engine!.log.appendedBytes &+ compaction.writtenBytes
      &- checkpoints.coveredBytes
  }

  /// Whether to write a checkpoint in the background: when the bytes to replay are at least eight
  /// times the size of the index. So the cost of checkpoints stays a small share of all writing.
  var isCheckpointDue: Bool {
    guard engine != nil, !opener.configuration.isReadOnly else { return false }
    let floor = UInt64(opener.configuration.checkpointFloorBytes)
    if floor == 0 { return bytesSinceCheckpoint > 0 }
    return bytesSinceCheckpoint >= max(floor &* 32, UInt64(engine!.live.byteCount) &* 8)
  }

  /// Whether to write a checkpoint when the store closes: there it is worth its cost sooner.
  var isCheckpointWorthItAtClose: Bool {
    guard engine != nil else { return false }
    let floor = UInt64(opener.configuration.checkpointFloorBytes)
    if floor == 0 { return bytesSinceCheckpoint > 0 }
    return bytesSinceCheckpoint >= max(floor, UInt64(engine!.live.byteCount) / 2)
  }

  /// Writes a checkpoint of the current index. No segment is being rewritten.
  ///
  /// A checkpoint that cannot be written, for example on a full disk, is left out: it only makes
  /// opening faster.
  func writeCheckpoint(on runner: any JobRunner) async throws(StoreError) {
    try await writeImage(on: runner)
    // Pages that changed while the image existed were copied. Now that it no longer exists, move
    // them back to their places, a quarter megabyte at a time. Once over the index is enough: each
    // snapshot that ends in between begins another round, and operations continue that one.
    var rounds = (engine?.live.byteCount ?? 0) / (64 * 4096) + 2
    while rounds > 0, engine != nil, engine!.live.tend(pages: 64) {
      rounds -= 1
      await Task.yield()
    }
  }

  /// Takes memory ahead for the pages that writers copy while the image exists, if there are any.
  private func prepareImage(on runner: any JobRunner) async throws(StoreError) {
    let last = pipeline.lastAppended
    try await pipeline.run { () throws(StoreError) in }
    guard engine != nil, pipeline.lastAppended > last else { return }
    let prepare = engine!.live.preparationOfCopies()
    try await runner.run { () throws(StoreError) in prepare() }
  }

  private func writeImage(on runner: any JobRunner) async throws(StoreError) {
    guard engine != nil, !pipeline.hasPoison else { return }
    // In parts, so that other calls get their turn: the index of a hundred million keys is more
    // than a gigabyte.
    while engine != nil, try engine!.validateNextPages() { await Task.yield() }
    let first = pipeline.lastAppended
    try await prepareImage(on: runner)
    // Last: nothing may be followed between this and the image, which must be of one state.
    try await catchUpAsWriter()
    guard engine != nil else { return }
    let image = try engine!.checkpointImage()
    let written =
      engine!.report.replayedBytes &+ engine!.log.appendedBytes &+ compaction.writtenBytes
    let name = engine!.checkpointName()
    let directory = engine!.directoryHandle()
    let pipeline = pipeline
    let last = pipeline.lastAppended
    try await makeDurable(through: last, since: first)
    // An opening accepts a checkpoint over a full segment only if the manifest lists it as sealed:
    // wait for the tasks and the jobs of all rotations before the image.
    await writing.waitForSegmentTasks()
    try await pipeline.run { () throws(StoreError) in }
    let began = SystemClock.monotonicNanoseconds()
    do throws(StoreError) {
      try await runner.run { () throws(StoreError) in
        try CheckpointFile.write(image, as: name, directory, pipeline)
      }
      checkpoints.recordWriting(lengthBytes: UInt64(image.lengthBytes), covering: written)
      let elapsed = SystemClock.monotonicNanoseconds() - began
      send(.checkpointWritten(lengthBytes: UInt64(image.lengthBytes), elapsedNanoseconds: elapsed))
      // Older checkpoints that cannot be removed now are removed after the next one is written.
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
      send(.checkpointFailed(error))
    }
  }
}
