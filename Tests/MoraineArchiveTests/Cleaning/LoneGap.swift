import MoraineArchive
import MoraineEngine
import MoraineTesting
import Testing

/// A whole copy of a store without a checkpoint: its writer ended in between. Another writer has
/// made a checkpoint of a later state.
struct LoneGap {
  let store: Store
  let writer: ArchiveWriter
  /// The position of the copy.
  let position: UInt64
  /// The state of the copy.
  let state: ArchiveBench.State
  /// The commit of the copy.
  let commit: ObjectName
  /// The list of the copy's segments.
  let contents: ObjectName
  /// The segments of the copy that no checkpoint names.
  let segments: [ObjectName]
}

extension ArchiveBench {
  /// Writes a store, its copy and the later checkpoint.
  func makeLoneGap() async throws -> LoneGap {
    var bench = self
    bench.configuration.heldBytesLimit = 5000
    let store = try bench.store()
    let first = try await bench.attach(store)
    for number in 0..<2000 { try await store.set([UInt8(number & 255)], forKey: "x") }
    _ = try await store.compact()
    refuseCheckpoints()
    await #expect(throws: ArchiveError.self) { try await first.flush() }
    objects.setScript(nil)
    let position = first.status.position
    let state = try await store.contents()
    await first.abandon()
    let second = try await bench.attach(store)
    for number in 0..<300 { try await store.set([UInt8(number & 255)], forKey: "y") }
    _ = try await store.compact()
    try await second.checkpoint()
    let names = try ArchiveNames(root: Self.root)
    let contents = try contents(ofCommit: position)
    let checkpoints = objects.objects.filter { $0.key.text.hasPrefix(names.checkpoints.text) }
    let kept = try checkpoints.values.flatMap { bytes in
      try segments(of: names.data(try CheckpointRecord(bytes).contents.name))
    }
    return LoneGap(
      store: store, writer: second, position: position, state: state,
      commit: names.commit(position), contents: contents,
      segments: try segments(of: contents).filter { !kept.contains($0) })
  }

  /// Refuses to create checkpoints until the script of the store of objects is another one.
  func refuseCheckpoints() {
    objects.setScript { request in
      request.verb == .create && request.object.text.hasPrefix("users/chk/")
        ? .refused(.unavailable) : nil
    }
  }

  /// Returns the name of the list of segments that a commit names.
  func contents(ofCommit position: UInt64) throws -> ObjectName {
    let names = try ArchiveNames(root: Self.root)
    let bytes = try #require(objects[names.commit(position)])
    return names.data(try #require(try Commit(bytes).header.contents).name)
  }

  /// Returns the names of the segments in a list.
  private func segments(of contents: ObjectName) throws -> [ObjectName] {
    let names = try ArchiveNames(root: Self.root)
    let bytes = try #require(objects[contents])
    let list = try bytes.withUnsafeBytes { try CheckpointContents(decodingContainer: $0) }
    return list.segments.map { names.data($0.object) }
  }
}
