import MoraineFormat
import MoraineStorage

extension Manifest {
  /// The first manifest of a follower: these contents, in the same epoch.
  var ofFollower: Manifest {
    var manifest = self
    manifest.isBackup = false
    manifest.instanceID = StoreIdentifier(low: SystemRandom.number(), high: SystemRandom.number())
    manifest.forgetLaterCuts()
    manifest.attachment = nil
    manifest.generation += 1
    manifest.createdMilliseconds = SystemClock.wallMilliseconds()
    manifest.leaveNumbersToTheWriter()
    return manifest
  }

  /// Reserves numbers for the segments that this store's own compaction writes, far above those
  /// that the writer of the archive uses. Another follower has reserved other numbers, with high
  /// probability, and may become the writer.
  mutating func leaveNumbersToTheWriter() {
    // After two thousand changes of the writer, the numbers may meet. Then a follower begins again.
    skipNumbers((1 + SystemRandom.number() % (1 << 12)) << 40)
  }

  /// Reserves numbers for the segments of a new life, which no other life uses.
  ///
  /// The life before may still run on another machine, with the same next number: its compaction
  /// writes segments that an archive gets with a checkpoint, also when this store was restored
  /// before that. Another restored store has reserved other numbers, with high probability.
  mutating func leaveNumbersToOtherLives() {
    skipNumbers((1 + SystemRandom.number() % (1 << 24)) << 20)
  }

  /// Leaves out numbers of segments, unless the numbers would end.
  private mutating func skipNumbers(_ count: UInt64) {
    let (next, overflows) = nextSegmentNumber.addingReportingOverflow(count)
    guard !overflows, next <= StoreLimits.manifestCounter else { return }
    nextSegmentNumber = next
  }

  /// Begins another life of the store's history.
  mutating func begin(_ life: Epoch) {
    assert(life.epoch > epoch, "epochs rise")
    epoch = life.epoch
    epochs.append(life)
  }
}
