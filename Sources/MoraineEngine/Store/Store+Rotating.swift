import MoraineFormat
import MoraineStorage

extension Store {
  /// Ends the active segment and begins the next; the old one is sealed in the background.
  ///
  /// The manifest first lists both as open, so that a kill at any moment finds every record. Once
  /// the old one is durable, it lists it as sealed. Until then nothing in the new one can become
  /// durable, and no further segment can be born: the committing thread does one after the other.
  func rotate(for count: Int) async throws(StoreError) {
    await manifestGate.acquire()
    defer { manifestGate.release() }
    let pipeline = pipeline
    if isShared {
      // At once, under the lock: what is left for later, another process would have to wait for.
      try await sealActive()
    } else {
      try engine!.appendFooter()
    }
    let birth = engine!.nextBirth(for: count)
    let child: SegmentBirth.Child
    do throws(StoreError) {
      child = try await pipeline.run { () throws(StoreError) in try birth.run(pipeline) }
    } catch {
      engine!.giveBack(birth.header.number)
      throw error
    }
    let full = engine!.adopt(child, birth)
    let next = engine!.nextManifest(sealing: full)
    let publisher = engine!.publisher()
    do throws(StoreError) {
      try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    } catch {
      engine!.abandonActive(for: full)
      // Beside others its number is not given again, and nobody would remove what it has allocated.
      if isShared, !pipeline.hasPoison {
        try await pipeline.run { () throws(StoreError) in try birth.discard() }
      }
      throw error
    }
    engine!.adoptManifest(next)
    let length = UInt64(birth.header.headerLength)
    guard let full else {
      pipeline.begin(file: child.file, sequence: next.lastSequence.rawValue, offset: length)
      // What an earlier life has left.
      compactIfWorthIt()
      return
    }
    let seal = engine!.sealWork(full.segment)
    let after = engine!.manifestAfterSealing(full.segment)
    pipeline.begin(file: child.file, offset: length) { seal.runInBackground(publisher, after) }
    compactIfWorthIt()
  }

  /// Puts what the manifest should say now in place.
  func publishManifest() async throws(StoreError) {
    let next = engine!.nextManifest()
    let publisher = engine!.publisher()
    try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    engine!.adoptManifest(next)
  }
}
