import MoraineArchive
import MoraineEngine
import MoraineTesting
import SystemPackage
import Testing

/// One run of a scenario: a store, its archive, and all states that were written.
final class FaultRun {
  var bench: ArchiveBench
  private(set) var store: Store
  private(set) var writer: ArchiveWriter?
  /// The states after the operations with these numbers. Two copies of a store have written
  /// different states with one number.
  private(set) var states: [SequenceNumber: [ArchiveBench.State]] = [:]
  /// The number of the last operation that a flush has acknowledged.
  private(set) var acknowledged = SequenceNumber.none
  /// Each number that a flush has acknowledged, unless a cleaning may have removed it.
  private(set) var restorable: Set<SequenceNumber> = []
  private var random = SeededGenerator(seed: 5)
  private var restoreCount = 0
  private var path: FilePath = "store"

  init(heldBytesLimit: Int = 1 << 20) throws {
    bench = ArchiveBench()
    bench.configuration.commitBytes = 1500
    bench.configuration.patience = .milliseconds(2)
    bench.configuration.heldBytesLimit = heldBytesLimit
    store = try bench.store()
  }

  /// Operations of the store itself, which no fault of the archive concerns.
  private func local<Value>(
    _ body: () async throws -> Value
  ) async throws(ArchiveError) -> Value {
    do { return try await body() } catch {
      throw ArchiveError(.store, "\(error)", storeError: error as? StoreError)
    }
  }

  func write(_ count: Int) async throws(ArchiveError) {
    var random = random
    let (sequence, state) = try await local {
      try await store.change(count, using: &random)
      return (try await store.statistics().lastSequence, try await store.contents())
    }
    self.random = random
    states[sequence, default: []].append(state)
  }

  func compact() async throws(ArchiveError) {
    try await local { _ = try await store.compact() }
  }

  func attach() async throws(ArchiveError) {
    let archive = try await Archive.open(
      bench.objects, at: ArchiveBench.root, createIfMissingFor: store,
      configuration: bench.configuration)
    writer = try await archive.attach(store)
  }

  func flush() async throws(ArchiveError) {
    guard let shipped = try await writer?.flush() else { return }
    acknowledged = shipped
    restorable.insert(shipped)
  }

  func checkpoint() async throws(ArchiveError) { try await writer?.checkpoint() }

  func detach() async throws(ArchiveError) { try await writer?.detach() }

  func abandon() async {
    await writer?.abandon()
    writer = nil
  }

  /// Ends the process, and opens the store again.
  func reopen() async throws(ArchiveError) {
    await abandon()
    let bench = bench
    let path = path
    store = try await local {
      try await store.close()
      return try bench.store(path)
    }
  }

  /// Copies the directory, and goes on with the copy. The writer of the original stays.
  func switchToCopy() async throws(ArchiveError) -> ArchiveWriter? {
    let bench = bench
    path = "copy"
    let earlier = writer
    writer = nil
    store = try await local {
      try await store.sync()
      try bench.storage.copyDirectory("store", to: "copy")
      return try bench.store("copy")
    }
    return earlier
  }

  /// Goes on with a store that is restored from a moment.
  func switchToRestored(_ point: RestorePoint) async throws(ArchiveError) {
    let restored = try await restored(point)
    await abandon()
    let (bench, path) = (bench, restored)
    self.path = path
    (acknowledged, restorable) = (.none, [])
    store = try await local {
      try await store.close()
      return try bench.store(path)
    }
    let (sequence, state) = try await local {
      (try await store.statistics().lastSequence, try await store.contents())
    }
    states[sequence, default: []].append(state)
  }

  func clean() async throws(ArchiveError) {
    restorable = []
    let archive = try await Archive.open(
      bench.objects, at: ArchiveBench.root, configuration: bench.configuration)
    try await archive.clean(RetentionRule(moments: .zero, checkpoints: .zero, days: 0))
  }

  /// Restores a moment, and checks that the state was written.
  @discardableResult
  func restored(_ point: RestorePoint) async throws(ArchiveError) -> FilePath {
    restoreCount += 1
    let path = FilePath("restored-\(restoreCount)")
    let bench = bench
    let archive = try await Archive.open(
      bench.objects, at: ArchiveBench.root, configuration: bench.configuration)
    let report = try await archive.restore(to: path, at: point, on: bench.storage)
    let state = try await local {
      let store = try bench.store(path)
      let state = try await store.contents()
      try await store.close()
      return state
    }
    #expect(states[report.sequence]?.contains(state) == true, "a state that was never written")
    if point == .latest { #expect(report.sequence >= acknowledged, "acknowledged, and lost") }
    if point == .sequence(report.sequence) {
      #expect(states[report.sequence]?.last == state, "another state of this number")
    }
    return path
  }

  /// Ends all faults, and checks that nothing acknowledged is lost and that the archive goes on.
  ///
  /// - Parameter restarts: whether the writer ends, too.
  func recover(restarts: Bool) async throws {
    bench.objects.setScript(nil)
    if acknowledged != .none { try await restored(.latest) }
    let isOver = writer?.status.failure != nil
    if isOver || restarts { await abandon() }
    if writer == nil { try await attach() }
    // Late requests have their effects when the next writer has taken over.
    bench.objects.deliverDelayed()
    try await write(3)
    try await flush()
    try await restored(.latest)
    try await checkpoint()
    let path = try await restored(.latest)
    let last = try bench.store(path)
    #expect(try await last.contents() == store.contents())
    try await last.close()
    for sequence in restorable { try await restored(.sequence(sequence)) }
    _ = try await Archive.open(
      bench.objects, at: ArchiveBench.root, configuration: bench.configuration
    ).verify(allStates: true)
    try await detach()
    try await store.close()
  }
}
