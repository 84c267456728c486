import MoraineFormat
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

// Of a suite that runs one test after the other: each has a thread of the pool stand still.
extension SharedFollowingTests {
  /// Reads that go through many segments, whose files another process compacts away under their
  /// feet. Without mappings a file is opened when it is reached.
  @Suite struct LongReadTests {
    enum Read: CaseIterable {
      case forEach, entries, livePages, verify

      /// The keys that it finds, sorted; nil when it finds none of its own.
      func run(_ store: Store) async throws -> [String]? {
        var keys: [String] = []
        switch self {
        case .forEach:
          try await store.forEach { entry in
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
        }
        return keys.sorted()
      }
    }

    /// A writer with more segments than files are kept open, and a reader that stops before it
    /// opens the given one of them; there the writer compacts all.
    private func read(_ read: Read, stoppingAt number: Int) async throws {
      let memory = MemoryStorage()
      let slow = FaultStorage(memory)
      var configuration = Configuration.shared(.positional, segmentSizeBytes: 600)
      configuration.compaction = .manual
      let writer = try Store(on: memory, at: "store", configuration: configuration)
      let keys = (0..<1500).map { "\($0)" }
      for key in keys { try await writer.set([1], forKey: Key(key)) }
      let reader = try Store(on: slow, at: "store", configuration: configuration)
      #expect(await reader.statistics.segmentCount > 80)
      let gate = Gate()
      let opened = Mutex(0)
      slow.setScript { event in
        guard event.operation == .openFile, event.file.hasSuffix(".segment") else { return nil }
        return opened.withLock { opened in
          opened += 1
          return opened == number ? .hang(gate) : nil
        }
      }
      async let answer = read.run(reader)
      await gate.arrival()
      try await writer.compact()
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
      guard kind == .forEach, number > 1 else { return try await read(kind, stoppingAt: number) }
      // Some were given out already, and the rest is no longer as it was then.
      let error = await #expect(throws: StoreError.self) {
        try await read(kind, stoppingAt: number)
      }
      #expect(error?.code == .locked && error?.message.contains("begin again") == true)
    }
  }
}
