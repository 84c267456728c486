import MoraineArchive
import MoraineEngine
import MoraineFormat
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// A cleaning that ends within a request that removes many objects. The stores of objects that ship
/// remove one object after the other, so a part of them may be gone.
@Suite(.timeLimit(.minutes(5))) struct InterruptedCleaningTests {
  private static let rule = RetentionRule(moments: .zero, checkpoints: .zero, days: 0)
  private static let dataObjects = "users/obj/"

  private var bench = ArchiveBench()

  init() {
    bench.configuration.commitBytes = 2000
    // Lasting faults end a cleaning.
    bench.configuration.patience = .milliseconds(2)
  }

  private func change(
    _ store: Store, _ writer: ArchiveWriter, _ random: inout SeededGenerator
  ) async throws {
    try await store.change(30, using: &random)
    try await writer.flush()
    _ = try await store.compact()
    try await writer.checkpoint()
  }

  /// Writes an archive with some checkpoints, and returns their states by position.
  private func makeStates() async throws -> [UInt64: ArchiveBench.State] {
    var random = SeededGenerator(seed: 23)
    var states: [UInt64: ArchiveBench.State] = [:]
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for _ in 0..<8 {
      try await change(store, writer, &random)
      states[writer.status.position] = try await store.contents()
    }
    try await writer.detach()
    try await store.close()
    return states
  }

  /// Cleans, and counts the requests that remove.
  ///
  /// - Parameters:
  ///   - removal: the request from which on each one removes a part only.
  ///   - count: the number of objects in a part.
  private func clean(from removal: Int = .max, _ count: Int = 0) async throws -> Int {
    let removals = Mutex(0)
    bench.objects.setScript { request in
      guard request.verb == .remove else { return nil }
      return removals.withLock { number in
        number += 1
        return number > removal ? .partial(count: count) : nil
      }
    }
    defer { bench.objects.setScript(nil) }
    let archive = try await bench.archive()
    do throws(ArchiveError) {
      try await archive.clean(Self.rule)
      #expect(removal == .max)
    } catch {
      #expect(error.code == .unavailable && removal < .max, "\(error)")
    }
    return removals.withLock { $0 }
  }

  /// Checks that each checkpoint is restored or is known as removed.
  private func check(_ states: [UInt64: ArchiveBench.State], _ place: String) async throws {
    let archive = try await bench.archive()
    var restoredCount = 0
    for checkpoint in try await archive.checkpoints() {
      let point = RestorePoint.position(checkpoint.position)
      let path = FilePath("\(place)-\(checkpoint.number)")
      guard checkpoint.extent == .removed else {
        let state = try await bench.restored(point, to: path).state
        if let expected = states[checkpoint.position] {
          #expect(state == expected, "\(path)")
          restoredCount += 1
        }
        continue
      }
      let error = await #expect(throws: ArchiveError.self) {
        try await bench.restored(point, to: path)
      }
      #expect(error?.code == .stateUnavailable, "\(path): \(error as Any)")
    }
    #expect(restoredCount > 0, "\(place)")
    _ = try await archive.verify(allStates: true)
  }

  @Test func checkpointIsWholeOrRemovedAfterAPartOfARemoval() async throws {
    let states = try await makeStates()
    let objects = bench.objects
    let before = objects.objects
    let removalCount = try await clean()
    #expect(removalCount > 4, "commits, and twice contents of checkpoints and segments")
    var placeCount = 0
    for removal in 0..<removalCount {
      var left = Int.max
      for count in 0... {
        objects.objects = before
        _ = try await clean(from: removal, count)
        // The part before was the whole.
        if objects.objects.count == left { break }
        left = objects.objects.count
        let place = "removal-\(removal)-part-\(count)"
        do { try await check(states, place) } catch { Issue.record("\(place): \(error)") }
        placeCount += 1
      }
    }
    #expect(placeCount > 12)
  }

  /// Regression: a cleaning failed between the contents of checkpoints and their segments. Nothing
  /// led to these segments any more, so they stayed as long as the writer did.
  @Test func nextCleaningOfAWriterRemovesWhatAFailedOneLeft() async throws {
    var bench = bench
    bench.configuration.retention = Self.rule
    var random = SeededGenerator(seed: 24)
    let store = try bench.store()
    let writer = try await bench.attach(store)
    let objects = bench.objects
    objects.setScript { request in
      let isData = request.object.text.hasPrefix(Self.dataObjects)
      return request.verb == .remove && isData ? .refused(.unavailable) : nil
    }
    for _ in 0..<3 {
      try await change(store, writer, &random)
      await writer.waitForCleaning()
    }
    // The contents go, and the segments stay.
    let removals = Mutex(0)
    objects.setScript { request in
      guard request.verb == .remove, request.object.text.hasPrefix(Self.dataObjects) else {
        return nil
      }
      let isFirst = removals.withLock { number in
        number += 1
        return number == 1
      }
      return isFirst ? nil : .refused(.unavailable)
    }
    try await change(store, writer, &random)
    await writer.waitForCleaning()
    #expect(removals.withLock { $0 } > 1)
    #expect(try superfluous().count > 0)
    objects.setScript(nil)
    try await change(store, writer, &random)
    await writer.waitForCleaning()
    #expect(try superfluous().isEmpty)
    try await writer.detach()
    try await store.close()
  }

  /// Regression: each call of `clean` began without the memory of the call before, and removed the
  /// contents of all checkpoints before any segment. After a refusal in between, their segments
  /// stayed as long as the writer did, whatever was called.
  @Test func nextCleaningOfAnArchiveRemovesWhatAFailedOneLeft() async throws {
    var random = SeededGenerator(seed: 25)
    let store = try bench.store()
    let writer = try await bench.attach(store)
    for _ in 0..<12 { try await change(store, writer, &random) }
    let checkpoints = try checkpoints()
    let archive = try await bench.archive()
    let (objects, removals) = (bench.objects, Counter())
    objects.setScript { request in
      guard request.verb == .remove, request.object.text.hasPrefix(Self.dataObjects) else {
        return nil
      }
      return removals.next() == 0 ? nil : .refused(.unavailable)
    }
    let error = await #expect(throws: ArchiveError.self) { try await archive.clean(Self.rule) }
    #expect(error?.code == .unavailable && removals.value > 1)
    objects.setScript(nil)
    // The process of the failed cleaning has ended, and another one cleans.
    try await bench.archive().clean(Self.rule)
    let left = try superfluous()
    let oldest = checkpoints.prefix(4).reduce(into: Set<ObjectName>()) { $0.formUnion($1) }
    #expect(!left.isEmpty && left.isSubset(of: oldest), "one group of checkpoints")
    // A call of the process in which the cleaning failed. A dry run changes nothing.
    let report = try await archive.clean(Self.rule, isDryRun: true)
    #expect(report.objectCount == left.count)
    #expect(try await archive.clean(Self.rule).objectCount == left.count)
    #expect(try superfluous().isEmpty)
    try await writer.detach()
    try await store.close()
  }

  /// Returns the data objects that the newest checkpoint does not need.
  private func superfluous() throws -> Set<ObjectName> {
    let data = Set(bench.objects.objects.keys.filter { $0.text.hasPrefix(Self.dataObjects) })
    return data.subtracting(try #require(try checkpoints().last))
  }

  /// Returns the contents and the segments of each checkpoint that was not removed, the oldest one
  /// first.
  private func checkpoints() throws -> [Set<ObjectName>] {
    let names = try ArchiveNames(root: ArchiveBench.root)
    let objects = bench.objects.objects
    let records = try objects.filter { $0.key.text.hasPrefix(names.checkpoints.text) }.values.map {
      try CheckpointRecord($0)
    }
    return try records.sorted { $0.number < $1.number }.compactMap { record in
      let contents = names.data(record.contents.name)
      guard let bytes = objects[contents] else { return nil }
      let list = try bytes.withUnsafeBytes { try CheckpointContents(decodingContainer: $0) }
      return Set(list.segments.map { names.data($0.object) }).union([contents])
    }
  }
}
