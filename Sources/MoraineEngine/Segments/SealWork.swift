import MoraineFormat
import MoraineStorage

/// A job of the committing thread: cuts a full segment to its length and makes it durable.
struct SealWork: Sendable {
  let number: SegmentNumber
  let file: any StorageFile
  let mapping: (any FileMapping)?
  let lengthBytes: UInt64
  let lastSequence: UInt64
  /// Held so that no other opening gets the directory while the job runs, even if the store no
  /// longer exists.
  let lock: (any StorageFile)?

  func run(_ pipeline: CommitPipeline) throws(StoreError) {
    if let poison = pipeline.poison { throw poison }
    assert(lengthBytes > 0, "a segment without a header is sealed")
    do throws(StorageError) {
      try file.truncate(to: lengthBytes)
      mapping?.finishWriting(to: Int(clamping: lengthBytes))
      try file.synchronize(.full)
    } catch {
      pipeline.poison(StoreError(error))
      throw StoreError(error)
    }
    try pipeline.checkPresence(of: file, syncedTo: lengthBytes)
    pipeline.becameDurable(through: lastSequence)
    pipeline.events?.tell(.segmentSealed(number, lengthBytes: lengthBytes))
  }

  /// Seals the segment while the writer continues, then lists it as sealed.
  func runInBackground(_ publisher: ManifestPublisher, _ manifest: Manifest) {
    do throws(StoreError) {
      try run(publisher.pipeline)
      try publisher.publish(manifest)
    } catch {
      // Where it is unknown what the disk holds, the failure has poisoned the pipeline already. A
      // manifest that could not be created, for lack of space or of descriptors, does no harm: the
      // next manifest says the same, and until then the footer does.
      let pipeline = publisher.pipeline
      if !pipeline.hasPoison { pipeline.events?.tell(.manifestFailed(error)) }
    }
  }
}
