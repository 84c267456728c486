import MoraineArchive
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

/// An archive in a store of objects that fails.
@Suite(.timeLimit(.minutes(5))) struct ArchiveFaultTests {
  /// Answers are lost, requests are lost or late, and the store of objects is away for a while.
  /// What a flush has acknowledged is restored, and nothing that was never written.
  @Test(arguments: 1...24 as ClosedRange<UInt64>)
  func acknowledgedStatesSurviveFailingRequests(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 2000
    bench.configuration.patience = .milliseconds(3)
    let store = try bench.store()
    var states: [SequenceNumber: ArchiveBench.State] = [:]
    var acknowledged = SequenceNumber.none
    var writer: ArchiveWriter?
    for round in 0..<25 {
      let (percent, faultSeed) = (Int.random(in: 0...40, using: &random), random.next())
      bench.objects.setScript(
        ObjectFault.random(
          seed: faultSeed, percent: percent,
          [.answerLost, .requestLost, .delayed(requests: 3), .refused(.unavailable)]))
      do throws(ArchiveError) {
        if writer == nil { writer = try await attach(bench, store) }
        try await orStore {
          try await store.change(20, using: &random)
          if round % 5 == 4 { _ = try await store.compact() }
        }
        let state = try await orStore { try await store.contents() }
        let sequence = try await orStore { try await store.statistics().lastSequence }
        states[sequence] = state
        if let shipped = try await writer?.flush() { acknowledged = shipped }
        if round % 6 == 5 { try await writer?.checkpoint() }
      } catch {
        try #require(
          [.unavailable, .unsupportedStore, .damaged].contains(error.code),
          "seed \(seed), round \(round): \(error)")
        if Bool.random(using: &random) || writer?.status.failure != nil {
          await writer?.abandon()
          writer = nil
        }
      }
      bench.objects.setScript(nil)
      bench.objects.deliverDelayed()
    }
    if acknowledged == .none { return }
    let restored = try await bench.restored(to: "restored")
    #expect(restored.sequence >= acknowledged, "seed \(seed)")
    if let state = states[restored.sequence] {
      #expect(restored.state == state, "seed \(seed)")
    }
    let last = try await bench.restored(.sequence(acknowledged), to: "acknowledged")
    #expect(last.state == states[acknowledged], "seed \(seed)")
    await writer?.abandon()
    try await store.close()
  }

  /// The store of objects is away; the store is written on.
  @Test func shippingGoesOnAfterAnOutage() async throws {
    let bench = ArchiveBench()
    let store = try bench.store()
    try await store.set([1], forKey: "a")
    let writer = try await bench.attach(store)
    bench.objects.setScript { _ in .refused(.unavailable) }
    for number in 0..<50 { try await store.set([UInt8(number)], forKey: "b") }
    let error = await #expect(throws: ArchiveError.self) { try await writer.flush() }
    #expect(error?.code == .unavailable)
    #expect(writer.status.failure == nil)
    for number in 50..<90 { try await store.set([UInt8(number)], forKey: "b") }
    bench.objects.setScript(nil)
    #expect(try await writer.flush() == store.statistics().lastSequence)
    #expect(try await bench.restored(to: "restored").state == ["a": [1], "b": [89]])
    try await writer.detach()
    try await store.close()
  }

  /// The outage begins when some of the commits of one cut are shipped.
  @Test(arguments: 1...6 as ClosedRange<UInt64>)
  func shippingGoesOnInTheMiddleOfACut(commits: UInt64) async throws {
    var bench = ArchiveBench()
    bench.configuration.commitBytes = 1000
    let store = try bench.store()
    let writer = try await bench.attach(store)
    var random = SeededGenerator(seed: commits)
    try await store.change(100, using: &random)
    let first = writer.status.position
    let away = bench.objects
    away.setScript { request in
      guard let number = UInt64(request.object.parts.last ?? ""),
        request.object.text.hasPrefix("users/log/")
      else { return nil }
      return number > first + commits ? .refused(.unavailable) : nil
    }
    let error = await #expect(throws: ArchiveError.self) { try await writer.flush() }
    #expect(error?.code == .unavailable)
    away.setScript(nil)
    try await store.change(30, using: &random)
    if commits % 2 == 0 { _ = try await store.compact() }
    try await writer.flush()
    #expect(try await bench.restored(to: "restored").state == store.contents())
    try await writer.detach()
    try await store.close()
  }

  private func attach(
    _ bench: ArchiveBench, _ store: Store
  ) async throws(ArchiveError) -> ArchiveWriter {
    let archive = try await Archive.open(
      bench.objects, at: ArchiveBench.root, createIfMissingFor: store,
      configuration: bench.configuration)
    return try await archive.attach(store)
  }

  /// Calls of the store, in a place where only errors of the archive are thrown.
  private func orStore<Value>(
    _ body: () async throws -> Value
  ) async throws(ArchiveError) -> Value {
    do { return try await body() } catch {
      throw ArchiveError(.store, "\(error)")
    }
  }
}
