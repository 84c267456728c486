import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// Reads of the present state without a call of the actor.
@Suite(.timeLimit(.minutes(10))) struct ReaderTests {
  static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 20_000
    configuration.ioMode = mode
    configuration.durability = .none
    configuration.compaction = .manual
    return configuration
  }

  private static func store(_ mode: Store.Configuration.IOMode = .mapped) throws -> Store {
    try Store(on: MemoryStorage(), at: "store", configuration: configuration(mode))
  }

  @Test(arguments: SnapshotTests.modes)
  func readerSeesEachWriteThatHasReturned(mode: Store.Configuration.IOMode) async throws {
    let store = try Self.store(mode)
    let reader = try await store.reader()
    #expect(try reader.value(forKey: "a") == nil)
    let first = try await store.set([1], forKey: "a")
    #expect(try reader.value(forKey: "a") == [1])
    #expect(try reader.versionedValue(forKey: "a")?.sequence == first)
    try await store.set(Array(repeating: 7, count: 5000), forKey: "a")
    #expect(try reader.value(forKey: "a") == Array(repeating: 7, count: 5000))
    #expect(try reader.withValue(forKey: "a") { $0.byteCount } == 5000)
    #expect(try reader.contains("a"))
    try await store.removeValue(forKey: "a")
    #expect(try reader.value(forKey: "a") == nil)
    #expect(try !reader.contains("a"))
    #expect(try reader.withValue(forKey: "a") { $0.byteCount } == nil)
    try await store.close()
  }

  @Test func readerSeesKeyspacesThatAreCreatedLater() async throws {
    let store = try Self.store()
    try await store.set([0], forKey: "a")
    let reader = try await store.reader()
    for name in ["users", "posts"] {
      let keyspace =
        name == "users"
        ? try store.keyspace(named: name) : try store.orderedKeyspace(named: name)
      #expect(try reader.keyspace(named: name).value(forKey: "a") == nil)
      try await keyspace.set([1], forKey: "a")
      #expect(try reader.keyspace(named: name).value(forKey: "a") == [1])
      #expect(try await keyspace.reader().value(forKey: "a") == [1])
      try await store.write { try $0.set([2], forKey: "a", in: keyspace) }
      #expect(try reader.keyspace(named: name).value(forKey: "a") == [2])
    }
    // A hashed keyspace becomes an ordered one.
    let users = try store.orderedKeyspace(named: "users")
    try await users.set([3], forKey: "b")
    #expect(try reader.keyspace(named: "users").value(forKey: "a") == [2])
    #expect(try reader.keyspace(named: "users").value(forKey: "b") == [3])
    try await store.close()
  }

  @Test func readerHidesExpiredEntries() async throws {
    let clock = ManualClock(startingAt: 1000)
    var configuration = Self.configuration(.mapped)
    configuration.clock = clock
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.set([1], forKey: "before", expiring: .after(.milliseconds(10)))
    let reader = try await store.reader()
    try await store.set([2], forKey: "after", expiring: .after(.milliseconds(10)))
    for key in ["before", "after"] as [Key] { #expect(try reader.contains(key)) }
    clock.advance(by: .milliseconds(9))
    for key in ["before", "after"] as [Key] { #expect(try reader.contains(key)) }
    clock.advance(by: .milliseconds(1))
    for key in ["before", "after"] as [Key] { #expect(try reader.value(forKey: key) == nil) }
    try await store.close()
  }

  @Test func readerThrowsWhileTheStoreIsSuspendedOrClosed() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(.mapped))
    try await store.set([1], forKey: "a")
    let reader = try await store.reader()
    try await store.suspend()
    #expect(throws: StoreError.self) { try reader.value(forKey: "a") }
    try await store.resume()
    #expect(try reader.value(forKey: "a") == [1])
    try await store.set([2], forKey: "a")
    #expect(try reader.value(forKey: "a") == [2])
    try await store.close()
    do {
      _ = try reader.value(forKey: "a")
      Issue.record("a reader of a closed store has read")
    } catch { #expect(error.code == .closed) }
    await #expect(throws: StoreError.self) { try await store.reader() }
  }

  @Test func readerOfAStoreThatDoesNotExistYetFindsTheFirstWrite() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(.mapped))
    let reader = try await store.reader()
    #expect(try reader.value(forKey: "a") == nil)
    try await store.set([1], forKey: "a")
    #expect(try reader.value(forKey: "a") == [1])
    try await store.close()
  }

  /// Files that compaction has replaced go although the reader stays.
  @Test(arguments: SnapshotTests.modes)
  func readerKeepsNoReplacedFiles(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    let reader = try await store.reader()
    for round in 0..<4 as Range<UInt8> {
      for number in 0..<300 {
        try await store.set(Array(repeating: round, count: 100), forKey: Key("\(number)"))
      }
    }
    #expect(try directory.segments().count > 2)
    try await store.compact()
    #expect(try reader.value(forKey: "7") == Array(repeating: 3, count: 100))
    try await store.waitUntilIdle()
    #expect(try directory.segments().count == 1)
    for number in 0..<300 {
      #expect(try reader.value(forKey: Key("\(number)")) == Array(repeating: 3, count: 100))
    }
    try await store.close()
  }

  /// Regression: a rotation that fails gives its slot and its number to the next one, and a reader
  /// that began in between read the file of the first.
  @Test(arguments: SnapshotTests.modes)
  func readerSeesTheWritesAfterARotationThatFailed(mode: Store.Configuration.IOMode) async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
    let value = [UInt8](repeating: 1, count: 100)
    try await store.set(value, forKey: "0")
    let gate = Gate()
    storage.setScript { event in
      guard event.file == "MANIFEST.tmp" else { return nil }
      if event.operation == .createFile { return .hang(gate) }
      return event.operation == .write ? .fail(.noSpace) : nil
    }
    let writing = Task {
      var count = 1
      do {
        while count < 10_000 {
          try await store.set(value, forKey: Key("\(count)"))
          count += 1
        }
      } catch { #expect((error as? StoreError)?.code == .noSpace) }
      return count
    }
    await gate.arrival()
    let reader = try await store.reader()
    gate.open()
    let count = await writing.value
    storage.setScript(nil)
    for number in 0..<count + 100 {
      if number >= count { try await store.set(value, forKey: Key("\(number)")) }
      #expect(try reader.value(forKey: Key("\(number)")) == value)
    }
    try await store.close()
  }

  /// Regression: a damaged length led a reader past the end of a mapped file.
  @Test(arguments: SnapshotTests.modes, [false, true])
  func readerReadsDamagedRecordsAsDamaged(
    mode: Store.Configuration.IOMode, isRecent: Bool
  ) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    let before = isRecent ? try await store.reader() : nil
    let value = [UInt8](0..<50)
    try await store.set(value, forKey: "a")
    let reader = if let before { before } else { try await store.reader() }
    let url = directory.store.appendingPathComponent("0000000001.segment")
    let file = try FileHandle(forUpdating: url)
    let end = Int(try await store.statistics().diskBytes)
    var damageCount = 0
    for offset in SegmentHeader.fixedLength..<min(end, 400) {
      for byte in [UInt8(0x01), 0x80, 0xFF] {
        try file.flip(byte, at: offset)
        do throws(StoreError) {
          #expect(try reader.value(forKey: "a") == value, "byte \(offset)")
        } catch {
          #expect(error.code == .corrupted, "byte \(offset)")
          damageCount += 1
        }
        try file.flip(byte, at: offset)
      }
    }
    #expect(damageCount >= 3 * value.count)
    #expect(try reader.value(forKey: "a") == value)
    try file.close()
    try await store.close()
  }

  @Test func lastReaderEndsTheFreezingOfTheIndex() async throws {
    let store = try Self.store()
    try await store.set([1], forKey: "a")
    do {
      let reader = try await store.reader()
      let copy = reader.keyspace(named: "other")
      try await store.set([2], forKey: "a")
      #expect(try reader.value(forKey: "a") == [2])
      _ = copy
      #expect(await store.addsRecentRecords)
    }
    // The writer learns of it when it would have frozen the index again.
    for number in 0..<20_000 { try await store.set([3], forKey: Key("\(number)")) }
    #expect(await !store.addsRecentRecords)
    let reader = try await store.reader()
    #expect(try reader.value(forKey: "7") == [3])
    try await store.close()
  }

  /// A reference that does not keep the view.
  ///
  /// Safety of `@unchecked Sendable`: the reference is not changed, and reading it is atomic.
  private final class ViewReference: @unchecked Sendable {
    private weak var view: LiveView?

    init(_ view: LiveView) { self.view = view }

    var isAlive: Bool { view != nil }
  }

  private static func publishView(_ views: LiveViews) -> ViewReference {
    let view = LiveView(nil, ExpiryClock(SystemStoreClock()))
    views.publish(view)
    return ViewReference(view)
  }

  /// Regression: the view stayed until another read.
  @Test func replacedViewGoesWhenItsLastReaderLeavesBesideTheLock() async {
    let views = LiveViews()
    #expect(views.begin())
    let old = Self.publishView(views)
    let (reading, locking, hasRead, hasUnlocked) = (Gate(), Gate(), Gate(), Gate())
    Thread.detachNewThread {
      do throws(StoreError) {
        let found: Int? = try views.read { (_) throws(StoreError) -> LookUp<Int> in
          reading.pass()
          return .done(nil)
        }
        #expect(found == nil)
      } catch { Issue.record("\(error)") }
      hasRead.pass()
    }
    await reading.arrival()
    let new = Self.publishView(views)
    Thread.detachNewThread {
      views.whileLocked { locking.pass() }
      hasUnlocked.pass()
    }
    await locking.arrival()
    reading.open()
    await hasRead.arrival()
    #expect(old.isAlive)
    locking.open()
    await hasUnlocked.arrival()
    #expect(!old.isAlive)
    #expect(new.isAlive)
    views.end()
    #expect(!new.isAlive)
    hasRead.open()
    hasUnlocked.open()
  }

  /// The writes of another opening become visible without another call of this one.
  @Test func readerOfASharedStoreAppliesTheWritesOfOthers() async throws {
    let directory = try TestDirectory()
    var configuration = Self.configuration(.mapped)
    configuration.sharing = .shared
    let one = try Store(at: directory.path, configuration: configuration)
    try await one.set([1], forKey: "a")
    let reader = try await one.reader()
    let other = try Store(at: directory.path, configuration: configuration)
    for round in 2..<40 as Range<UInt8> {
      try await other.set([round], forKey: "a")
      if round == 20 { try await other.compact() }
      // Each read begins to apply what the other opening has written.
      while try reader.value(forKey: "a") != [round] { await Task.yield() }
    }
    try await one.set([100], forKey: "a")
    #expect(try reader.value(forKey: "a") == [100])
    try await other.close()
    try await one.close()
  }

  @Test func twoKeysWithOneHashAreToldApart() throws {
    let records = RecentRecords(limit: 4, end: 0)
    let (one, other) = (Address(slot: 0, offset: 64), Address(slot: 0, offset: 128))
    #expect(records.address(of: 0) == nil)
    #expect(records.add(0, one) { _ in false })
    #expect(records.address(of: 0) == one)
    #expect(records.add(0, other) { $0 == one })
    #expect(records.address(of: 0) == other)
    #expect(!records.add(0, one) { _ in false })
    #expect(records.address(of: 0) == other)
    for hash in 2..<9 as Range<UInt64> { #expect(records.add(hash, one) { _ in true }) }
    #expect(records.count == records.limit)
    #expect(!records.add(100, one) { _ in true })
    #expect(records.add(5, other) { _ in true })
  }
}

extension Store {
  /// Whether writes are shown to readers.
  fileprivate var addsRecentRecords: Bool { engine!.recent.records != nil }
}

extension FileHandle {
  fileprivate func flip(_ bits: UInt8, at offset: Int) throws {
    try seek(toOffset: UInt64(offset))
    let byte = try read(upToCount: 1)?.first
    try seek(toOffset: UInt64(offset))
    try write(contentsOf: [(byte ?? 0) ^ bits])
  }
}
