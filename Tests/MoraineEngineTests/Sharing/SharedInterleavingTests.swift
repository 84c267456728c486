import Testing

@testable import MoraineEngine

/// The words that the processes of a shared store exchange without a lock, in every order of their
/// accesses.
@Suite struct SharedInterleavingTests {
  private static let initial: [Int: UInt64] = Dictionary(
    uniqueKeysWithValues: (0..<12).map { ($0, 0) })

  private static func snapshot(_ number: UInt64) -> SharedPage.Publication {
    var snapshot = SharedPage.Publication()
    snapshot.generation = number
    snapshot.lastSequence = number
    return snapshot
  }

  /// Publishes the snapshots 1 to `count`.
  private static func publisher(_ count: UInt64) -> Interleavings.Program {
    { (thread) throws(ModelThread.Stop) in
      for number in 1...count { try thread.publish(snapshot(number)) }
      return []
    }
  }

  private static let reader: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
    guard let read = try thread.snapshot(attempts: 1) else { return [] }
    return [read.version, read.generation, read.lastSequence]
  }

  private static func tornSnapshots(without: MemoryModel.Fence? = nil) -> Int {
    let outcomes = Interleavings(
      programs: [publisher(2), reader], initial: initial, without: without
    ).outcomes()
    let read = Set(outcomes.map { $0.answers[1] })
    if without == nil { #expect(read.count > 2) }
    return read.count { !$0.isEmpty && ($0[0] != $0[1] * 2 || $0[1] != $0[2]) }
  }

  @Test func pageSnapshotEqualsASinglePublication() { #expect(Self.tornSnapshots() == 0) }

  @Test(arguments: [MemoryModel.Fence.acquiring, .releasing])
  func theModelFindsTornSnapshotsWithoutAFence(_ fence: MemoryModel.Fence) {
    #expect(Self.tornSnapshots(without: fence) > 0)
  }

  private static func unrungWatchers(without: MemoryModel.Fence? = nil) -> Int {
    let publisher: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      try thread.publish(snapshot(1))
      return [try thread.hasWatchers() ? 1 : 0]
    }
    let watcher: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      [try thread.beginWatching()]
    }
    return Interleavings(programs: [publisher, watcher], initial: initial, without: without)
      .outcomes().count { $0.answers[0] == [0] && $0.answers[1] != [2] }
  }

  /// A process that begins to watch knows the published version, or is woken for it.
  @Test func noPublicationIsMissedByANewWatcher() {
    #expect(Self.unrungWatchers() == 0)
    #expect(Self.unrungWatchers(without: .sequentiallyConsistent) > 0)
  }

  private struct WatchWords: ExchangingMemory {
    typealias Stop = ModelThread.Stop
    let thread: ModelThread

    private func place(_ word: WatchWord) -> Int { word == .version ? 2 : 20 }

    func load(relaxed word: WatchWord) throws(Stop) -> UInt64 {
      try thread.load(relaxed: place(word))
    }
    func load(acquiring word: WatchWord) throws(Stop) -> UInt64 {
      try thread.load(acquiring: place(word))
    }
    func store(_ value: UInt64, relaxed word: WatchWord) throws(Stop) {
      try thread.store(value, relaxed: place(word))
    }
    func store(_ value: UInt64, releasing word: WatchWord) throws(Stop) {
      try thread.store(value, releasing: place(word))
    }
    func exchange(_ value: UInt64, in word: WatchWord) throws(Stop) -> UInt64 {
      try thread.exchange(value, in: place(word))
    }
    func add(_ value: UInt64, to word: WatchWord) throws(Stop) {
      try thread.add(value, to: place(word))
    }
    func acquiringFence() throws(Stop) { try thread.acquiringFence() }
    func releasingFence() throws(Stop) { try thread.releasingFence() }
    func sequentiallyConsistentFence() throws(Stop) { try thread.sequentiallyConsistentFence() }
  }

  /// The watching thread saw version 2 and notified the store. It looks again after version 4 was
  /// published: either it notifies the store of that, or the store follows version 4 because of the
  /// first notification.
  private static func unheardVersions(heardByStoring: Bool) -> Int {
    let publisher: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      try thread.store(4, releasing: 2)
      return []
    }
    let watch: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let version = try thread.load(acquiring: 2)
      // The thread was woken for this version.
      guard version == 4 else { return [2] }
      return [try WatchWords(thread: thread).news(since: 2) ?? 0]
    }
    let store: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = WatchWords(thread: thread)
      if heardByStoring { try words.store(0, releasing: .isPending) } else { try words.heard() }
      return [try words.load(acquiring: .version)]
    }
    let outcomes = Interleavings(
      programs: [publisher, watch, store], initial: [2: 2, 20: 1]
    ).outcomes()
    return outcomes.count { $0.answers[1] == [0] && $0.answers[2] == [2] }
  }

  /// Regression: a change could stay unnoticed until the thread looked at its next interval, a
  /// second later.
  @Test func everyVersionIsSignalledOrFollowed() {
    #expect(Self.unheardVersions(heardByStoring: false) == 0)
    #expect(Self.unheardVersions(heardByStoring: true) > 0)
  }
}
