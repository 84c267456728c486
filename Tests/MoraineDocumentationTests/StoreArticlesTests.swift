import Foundation
import Moraine
import SystemPackage
import Testing

@Suite struct StoreArticlesTests {
  @Test func durability() async throws {
    let store = Store.inMemory()
    let bytes: [UInt8] = [1]
    try await store.set(bytes, forKey: "draft")  // as configured
    try await store.set(bytes, forKey: "letter", durability: .sync)
    try await store.sync()  // everything so far
    print(store.durableSequence)
    #expect(store.durableSequence == SequenceNumber(rawValue: 2))
  }

  @Test func batchesAndKeyspaces() async throws {
    let store = Store.inMemory()
    let bytes: [UInt8] = [1]
    try await store.set([2], forKey: "b")
    try await store.write { batch in  // atomic, and reads its own writes
      try batch.set([1], forKey: "a")
      try batch.removeValue(forKey: "b")
    }
    #expect(try await store.count() == 1)

    let users = try store.keyspace(named: "users")
    try await store.write { batch in
      try batch.set(bytes, forKey: "ada", in: users)
      try batch.set(bytes, forKey: "last-user")
    }
    #expect(try await users.value(forKey: "ada") == bytes)
  }

  @Test func data() async throws {
    let store = Store.inMemory()
    try await store.set(Data("<svg/>".utf8), forKey: "icon")
    let icon = try await store.data(forKey: "icon")  // Data?
    // 16 bytes. UUIDs of version 7 are in the order of their time.
    let key = Key(UUID())
    #expect(icon?.count == 6 && key.bytes.count == 16)
  }

  @Test func errorsOfABody() async throws {
    let store = Store.inMemory()
    do throws(StoreError) {
      try await store.write { (batch) throws(StoreError) in try batch.set([1], forKey: "a") }
    } catch {
      print(error.code)  // no cast
    }
    #expect(try await store.value(forKey: "a") == [1])
  }

  @Test func largeValues() async throws {
    let store = Store.inMemory()
    let upload = AsyncStream<[UInt8]> { continuation in
      for _ in 0..<5 { continuation.yield(Array(repeating: 7, count: 100_000)) }
      continuation.finish()
    }
    var sent = 0
    func send(_ piece: [UInt8]) { sent += piece.count }
    let films = try store.largeValues(named: "films")
    // The upload is an AsyncSequence of [UInt8], Data, ...
    try await films.set(upload, forKey: "one")
    if let film = try await films.value(forKey: "one") {
      print(film.length)
      for try await piece in film { send(piece) }
    }
    #expect(sent == 500_000)
  }

  @Test func orderedKeyspaces() async throws {
    let store = Store.inMemory()
    let bytes: [UInt8] = [1]
    let events = try store.orderedKeyspace(named: "events")
    try await events.set(bytes, forKey: "2026-11-24/1")
    let page = try await events.entries(in: .prefix("2026-11-"), order: .descending, limit: 50)
    if let token = page.next { _ = try await events.entries(after: token, limit: 50) }
    let first = try await events.first(), last = try await events.last(in: ..<"2026-12")
    // Counts without reading the entries.
    let count = try await events.count(in: "2026-11"..<"2026-12")
    try await events.removeAll(in: .prefix("2025-"))
    #expect(page.entries.map(\.key) == ["2026-11-24/1"])
    #expect(first?.key == last?.key && count == 1)

    let moment = try await store.snapshot().keyspace(named: "events")
    try moment.scan(in: "2026-11"..."2026-12", order: .descending) { $0.value.count < 100 }
    // Passes the bytes without a copy.
    try moment.scanSpans(in: .all) { key, value in value.byteCount < 100 }
    var cursor = try moment.cursor(in: .prefix("2026-"))
    try cursor.seek(to: "2026-11-20")
    let before = try cursor.previous(), next = try cursor.next()
    #expect(before == nil && next?.value == bytes)
    #expect(try moment.count(in: .all) == 1)
  }

  @Test func compareAndSet() async throws {
    let store = Store.inMemory()
    let bytes: [UInt8] = [1]
    let seen = try await store.versionedValue(forKey: "k")
    let condition = seen.map { WriteCondition.sequence($0.sequence) } ?? .absent
    let sequence = try await store.set(bytes, forKey: "k", if: condition)
    // In one step.
    try await store.update("visits") { old in [(old?.first ?? 0) &+ 1] }
    #expect(sequence != nil)
    #expect(try await store.value(forKey: "visits") == [1])
  }

  @Test func readers() async throws {
    let store = Store.inMemory()
    try await store.set([1], forKey: "ada")
    try await store.keyspace(named: "events").set([2], forKey: "last")
    let reader = try await store.reader()  // once
    let name = try reader.value(forKey: "ada")  // in synchronous code
    let event = try reader.keyspace(named: "events").value(forKey: "last")
    #expect(name == [1])
    #expect(event == [2])
    try await store.close()
  }

  @Test func writeQueues() async throws {
    let store = Store.inMemory()
    let bytes: [UInt8] = [1]
    let queue = try await store.writeQueue()  // once
    // Suspends only while the queue is full.
    try await queue.set(bytes, forKey: "draft")
    let draft = try queue.value(forKey: "draft")  // sees that write
    try await queue.flush()  // the writes are in the store
    #expect(draft == bytes)
    #expect(try await store.value(forKey: "draft") == bytes)
    try await store.close()
  }

  @Test func snapshots() async throws {
    let store = Store.inMemory()
    try await store.set([1], forKey: "ada")
    let keys: [Key] = ["ada", "nobody"]
    let snapshot = try await store.snapshot()
    // On any thread, without `await`.
    let value = try snapshot.value(forKey: "ada")
    let many = try snapshot.values(forKeys: keys)
    try snapshot.scan { entry in entry.value.count < 100 }
    // Passes the bytes without a copy.
    try snapshot.scanSpans { key, value in value.byteCount < 100 }
    try await store.set([2], forKey: "ada")
    #expect(try snapshot.value(forKey: "ada") == value)
    #expect(many == [[1], nil])
  }

  @Test func changes() async throws {
    let store = Store.inMemory()
    let first = store.changes()
    try await store.set([1], forKey: "begin")
    var iterator = first.makeAsyncIterator()
    let cursor = try await iterator.next()?.cursor
    try await store.set([2], forKey: "middle")
    try await store.removeValue(forKey: "begin")
    let follower = Task { try await Self.follow(store, since: cursor) }
    #expect(try await follower.value == ["middle", "begin"])
  }

  private static func follow(_ store: Store, since begin: ChangeCursor?) async throws -> [Key] {
    var cursor = begin
    var seen: [Key] = []
    func apply(_ keyspace: String, _ key: Key, _ value: [UInt8]?) {
      seen.append(key)
      if value == nil { withUnsafeCurrentTask { $0?.cancel() } }
    }
    for try await change in store.changes(since: cursor) {
      apply(change.keyspace, change.key, change.value)  // nil is a removal
      cursor = change.cursor
    }
    return seen
  }

  @Test func openingAndCompaction() async throws {
    let ground = try Ground()
    let path = ground.path.appending("store.moraine")
    let first = try Store(at: path)
    try await first.set([1], forKey: "a")
    try await first.close()
    try await open(path)
    try await limitedCompaction(path)
    try await compactByHand(path)
  }

  private func open(_ path: FilePath) async throws {
    var configuration = Store.Configuration()
    configuration.createIfMissing = false
    let store = try await Store.open(at: path, configuration: configuration)
    let report = await store.recoveryReport
    print(report.wasClean, report.replayedBytes)
    #expect(report.wasClean)
    try await store.close()
  }

  private func limitedCompaction(_ path: FilePath) async throws {
    var configuration = Store.Configuration()
    // Fewer rewrites, more disk.
    configuration.compaction.spaceAmplificationLimit = 2
    configuration.compaction.rateLimitBytesPerSecond = 20 << 20
    let store = try Store(at: path, configuration: configuration)
    let statistics = try await store.statistics()
    print(statistics.spaceAmplification, statistics.writeAmplification)
    #expect(statistics.count == 1)
    try await store.close()
  }

  private func compactByHand(_ path: FilePath) async throws {
    var configuration = Store.Configuration()
    configuration.compaction = .manual
    let store = try Store(at: path, configuration: configuration)
    for _ in 0..<100 { try await store.set([2], forKey: "a") }
    let report = try await store.compact()
    print(report.inputBytes, report.outputBytes)
    #expect(report.outputBytes < report.inputBytes)
    try await store.close()
  }

  @Test func backups() async throws {
    let ground = try Ground()
    let store = try Store(at: ground.path.appending("users"))
    try await store.set([1], forKey: "a")
    let target = ground.path.appending("backup")
    let report = try await store.backup(to: target)
    print("up to", report.sequence, "copied", report.copiedBytes, "bytes")
    try await store.close()
    let directory = ground.path.appending("again")
    let restored = try await Store.restore(target, to: directory)
    #expect(restored.sequence == report.sequence)
    let past = ground.path.appending("past")
    let number = SequenceNumber(rawValue: 1)
    try await Store.restore(target, to: past, through: number)
    #expect(try await Store(at: past).count() == 1)
  }

  @Test func errors() async throws {
    let ground = try Ground()
    let notes = try LocalRepository<User>(directory: ground.folder, filename: "notes")
    try await notes.keyspace.store.close()
    var warnings: [String] = []
    func warn(_ text: String) { warnings.append(text) }
    let note = User(id: 1, name: "")
    do {
      try await notes.save(note)
    } catch {
      switch error.code {
      case .noSpace: warn("The disk is full. Nothing was lost; free some space and save again.")
      case .poisoned, .io: warn("The disk failed: \(error)")
      default: warn("\(error)")
      }
    }
    #expect(warnings.first?.hasPrefix("closed") == true)
  }
}
