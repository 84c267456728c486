import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

// An extension of a suite that runs its tests one after the other: each of these tests blocks a
// thread of the pool.
extension SharedFollowingTests {
  /// Reads of many segments whose files another process compacts away during the read. Without
  /// mappings a file is opened when the read reaches it.
  @Suite struct LongReadTests {
    enum Read: CaseIterable {
      case scan, entries, livePages, verify, backup

      /// Returns the keys that the read finds, sorted; nil for a read that returns no keys.
      func run(_ store: Store, _ storage: MemoryStorage) async throws -> [String]? {
        var keys: [String] = []
        switch self {
        case .scan:
          try await store.scan { entry in
            keys.append("\(entry.key)")
            return true
          }
        case .entries:
          keys = try await store.entries(in: "").entries.map { "\($0.key)" }
        case .livePages:
          var walk: LiveWalk? = LiveWalk()
          var seen: Set<String> = []
          while let place = walk {
            let page = try await Keyspace(store: store, name: "").livePage(place)
            seen.formUnion(page.entries.map { "\($0.key)" })
            walk = page.next
          }
          keys = Array(seen)
        case .verify:
          let report = try await store.verify()
          #expect(report.isSound, "\(report.problems)")
          return nil
        case .backup:
          _ = try await store.backup(to: "backup", on: storage)
          var configuration = Store.Configuration.testing()
          configuration.isReadOnly = true
          let backup = try Store(on: storage, at: "backup", configuration: configuration)
          keys = try await backup.entries(in: "").entries.map { "\($0.key)" }
          try await backup.close()
        }
        return keys.sorted()
      }
    }

    /// Opens a writer with more segments than files are kept open, and a reader that stops before
    /// it opens the given segment; at that moment the writer compacts all segments.
    private func read(_ read: Read, stoppingAt number: Int) async throws {
      let memory = MemoryStorage()
      let slow = FaultStorage(memory)
      var configuration = Store.Configuration.shared(.positional, segmentSizeBytes: 600)
      configuration.compaction = .manual
      let writer = try Store(on: memory, at: "store", configuration: configuration)
      let keys = (0..<1500).map { "\($0)" }
      for key in keys { try await writer.set([1], forKey: Key(key)) }
      let reader = try Store(on: slow, at: "store", configuration: configuration)
      #expect(try await reader.statistics().segmentCount > 80)
      let gate = Gate()
      let opened = Mutex(0)
      slow.setScript { event in
        guard event.operation == .openFile, event.file.hasSuffix(".segment") else { return nil }
        return opened.withLock { opened in
          opened += 1
          return opened == number ? .hang(gate) : nil
        }
      }
      async let answer = ThreadExecutor.run { try await read.run(reader, memory) }
      await gate.arrival()
      try await writer.compact()
      // The other reads hold the store's actor.
      if read == .backup { #expect(try await reader.value(forKey: "0") == [1]) }
      gate.open()
      let found = try await answer
      if let found { #expect(found == keys.sorted()) }
      try await reader.close()
      try await writer.close()
    }

    @Test(arguments: Read.allCases, [1, 70])
    func longReadIsRightOrRefusedWhileAnotherProcessCompacts(
      _ kind: Read, stoppingAt number: Int
    ) async throws {
      guard kind == .scan, number > 1 else { return try await read(kind, stoppingAt: number) }
      // Some records were already returned, and the others are no longer as they were at that time.
      let error = await #expect(throws: StoreError.self) {
        try await read(kind, stoppingAt: number)
      }
      #expect(error?.code == .locked && error?.message.contains("start it again") == true)
    }

    /// The file of a segment is removed after the backup has opened it and before it is shared.
    @Test func fileThatGoesBeforeItIsSharedIsRead() async throws {
      let memory = MemoryStorage()
      let slow = FaultStorage(memory)
      var configuration = Store.Configuration.shared(.positional, segmentSizeBytes: 600)
      configuration.compaction = .manual
      let writer = try Store(on: memory, at: "store", configuration: configuration)
      for number in 0..<200 { try await writer.set([1], forKey: Key("\(number)")) }
      let reader = try Store(on: slow, at: "store", configuration: configuration)
      #expect(try await reader.count() == 200)
      let gate = Gate()
      let shares = Mutex(0)
      slow.setScript { event in
        guard event.operation == .share else { return nil }
        let count = shares.withLock { shares in
          shares += 1
          return shares
        }
        return count == 1 ? .hang(gate) : nil
      }
      let backup = Task { try await reader.backup(to: "backup", on: slow) }
      await gate.arrival()
      try await writer.compact()
      gate.open()
      _ = try await backup.value
      configuration.isReadOnly = true
      let copy = try Store(on: memory, at: "backup", configuration: configuration)
      #expect(try await copy.count() == 200)
      try await copy.close()
      try await reader.close()
      try await writer.close()
    }
  }
}
