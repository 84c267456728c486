#if S3
  import Foundation
  import MoraineArchive
  import MoraineEngine
  import MoraineS3
  import MoraineStorage
  import MoraineTesting
  import SystemPackage
  import Testing

  /// The address of a bucket for tests; nil when there is no server.
  private let bucketAddress = ProcessInfo.processInfo.environment["MORAINE_BUCKET"]

  /// Archives in a real bucket. `Scripts/archive` starts a server and sets `MORAINE_BUCKET`.
  @Suite(.enabled(if: bucketAddress != nil), .timeLimit(.minutes(10)))
  struct S3ArchiveTests {
    private let objects: S3ObjectStore
    private let storage = MemoryStorage()

    init() throws {
      let bucket = try S3Location(try #require(bucketAddress))
      objects = S3ObjectStore(
        try S3Location(
          bucket: bucket.bucket, prefix: "archives/\(UUID().uuidString)", endpoint: bucket.endpoint,
          region: bucket.region, style: bucket.style, provider: bucket.provider))
    }

    private func store(_ path: FilePath) throws -> Store {
      var configuration = Store.Configuration()
      configuration.segmentSizeBytes = 256 << 10
      configuration.durability = .none
      return try Store(on: storage, at: path, configuration: configuration)
    }

    private func contents(_ store: Store) async throws -> [Key: [UInt8]] {
      var contents: [Key: [UInt8]] = [:]
      try await store.snapshot().scan { entry in
        contents[entry.key] = entry.value
        return true
      }
      return contents
    }

    private func restored(_ point: RestorePoint, _ path: FilePath) async throws -> [Key: [UInt8]] {
      let archive = try await Archive.open(objects, at: .root)
      _ = try await archive.restore(to: path, at: point, on: storage)
      let store = try store(path)
      let found = try await contents(store)
      try await store.close()
      return found
    }

    private func change(
      _ store: Store, _ count: Int, using random: inout SeededGenerator
    ) async throws {
      for _ in 0..<count {
        let key = Key("key \(Int.random(in: 0..<200, using: &random))")
        if Int.random(in: 0..<8, using: &random) == 0 {
          try await store.removeValue(forKey: key)
        } else {
          let value = (0..<Int.random(in: 0..<4000, using: &random)).map { _ in
            UInt8.random(in: .min ... .max, using: &random)
          }
          try await store.set(value, forKey: key)
        }
      }
    }

    /// The check of the server runs at each attach.
    @Test(arguments: [1, 2] as [UInt64])
    func eachShippedStateIsRestored(seed: UInt64) async throws {
      var random = SeededGenerator(seed: seed)
      let store = try store("store")
      let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
      var writer = try await archive.attach(store)
      var states: [(position: UInt64, state: [Key: [UInt8]])] = []
      for round in 0..<8 {
        try await change(store, 150, using: &random)
        if round % 3 == 1 { _ = try await store.compact() }
        try await writer.flush()
        states.append((writer.status.position, try await contents(store)))
        if round % 3 == 2 { try await writer.checkpoint() }
        if round == 4 {
          await writer.abandon()
          writer = try await archive.attach(store)
        }
      }
      #expect(writer.status.checkpoint > 1)
      for (index, known) in states.enumerated() {
        let found = try await restored(.position(known.position), FilePath("p\(index)"))
        #expect(found == known.state, "seed \(seed), round \(index)")
      }
      try await writer.detach()
      let info = try await archive.verify()
      #expect(info.checkedBytes > 0)
      #expect(try await restored(.latest, "latest") == states.last?.state)
      try await store.close()
    }

    @Test func laterWriterFencesTheEarlierOne() async throws {
      let store = try store("store")
      try await store.set([1], forKey: "a")
      let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
      let earlier = try await archive.attach(store)
      let later = try await archive.attach(store)
      try await store.set([2], forKey: "a")
      let error = await #expect(throws: ArchiveError.self) { try await earlier.flush() }
      #expect(error?.code == .fenced)
      try await later.flush()
      #expect(try await restored(.latest, "restored") == ["a": [2]])
      try await later.detach()
      try await store.close()
    }

    /// A segment of a few megabytes is streamed.
    @Test func longSegmentsAreShipped() async throws {
      var configuration = Store.Configuration()
      configuration.segmentSizeBytes = 8 << 20
      configuration.durability = .none
      let store = try Store(on: storage, at: "long", configuration: configuration)
      var random = SeededGenerator(seed: 5)
      for number in 0..<24 {
        let value = (0..<(512 << 10)).map { _ in UInt8.random(in: .min ... .max, using: &random) }
        try await store.set(value, forKey: Key("\(number)"))
      }
      let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
      let writer = try await archive.attach(store)
      try await writer.checkpoint()
      try await writer.detach()
      #expect(try await restored(.latest, "restored") == (try await contents(store)))
      try await store.close()
    }
  }
#endif
