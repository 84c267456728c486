#if S3
  import Crypto
  import MoraineArchive
  import MoraineEngine
  import MoraineTesting
  import Synchronization
  import Testing

  @testable import MoraineS3

  /// Bodies of requests.
  @Suite(.timeLimit(.minutes(2))) struct S3BodyTests {
    private static let name = objectName("obj/1")

    /// Pieces of a long body, with the number of times that it was read.
    private func body(_ count: Int, reads: Counter? = nil) -> ObjectBody {
      ObjectBody(byteCount: count) { visit in
        reads?.add()
        var (start, piece) = (0, [UInt8](repeating: 0, count: 700_001))
        while start < count {
          for index in stride(from: 0, to: piece.count, by: 1000) {
            piece[index] = UInt8(truncatingIfNeeded: (start + index) / 1000)
          }
          let length = min(piece.count, count - start)
          guard piece[..<length].withUnsafeBytes({ visit($0) }) else { return }
          start += length
        }
      }
    }

    final class Counter: Sendable {
      private let count = Atomic(0)
      var value: Int { count.load(ordering: .sequentiallyConsistent) }
      func add() { count.add(1, ordering: .sequentiallyConsistent) }
    }

    @Test(arguments: [0, 1, 1 << 20, 1 << 20 | 1, 20_000_003])
    func bodyArrivesWithItsDigest(count: Int) async throws {
      let server = try await BucketServer { _, _ in .answer(200) }
      let objects = try server.objects()
      let reads = Counter()
      #expect(try await objects.create(Self.name, body(count, reads: reads)) == .created)
      let received = try #require(server.received.first)
      #expect(received.body == (try body(count).bytes))
      #expect(received.header("content-length") == "\(count)")
      #expect(
        received.header("x-amz-content-sha256")
          == RequestSigner.digits(SHA256.hash(data: received.body)))
      #expect(reads.value == (count > 1 << 20 ? 2 : 1))
    }

    /// A long body is read on a thread of its own, which must not wait for ever.
    @Test func readingEndsWhenTheServerEndsTheRequest() async throws {
      let server = try await BucketServer { _, _ in .answer(200) }
      let (ended, end) = AsyncStream.makeStream(of: Void.self)
      let reads = Counter()
      let endless = ObjectBody(byteCount: 64 << 20) { visit in
        reads.add()
        let piece = [UInt8](repeating: 1, count: 1 << 20)
        for _ in 0..<64 where !piece.withUnsafeBytes({ visit($0) }) { break }
        if reads.value == 2 { end.yield() }
      }
      let objects = try server.objects()
      let task = Task { try await objects.put(Self.name, endless) }
      while reads.value < 2 { await Task.yield() }
      task.cancel()
      for await _ in ended { break }
      _ = await task.result
      // The threads are free for other requests.
      for _ in 0..<20 { try await objects.put(Self.name, ObjectBody([1])) }
    }

    /// Regression: the search for the cause of a failure waited for a thread, and the reading of
    /// the body on that thread for the end of the request. Eight failures at once never ended.
    @Test func readingEndsBeforeTheSearchForACause() async throws {
      let (ended, end) = AsyncStream.makeStream(of: Void.self)
      let reads = Counter()
      let long = ObjectBody(byteCount: 8 << 20) { visit in
        reads.add()
        let piece = [UInt8](repeating: 1, count: 1 << 20)
        for _ in 0..<8 where !piece.withUnsafeBytes({ visit($0) }) { break }
        if reads.value == 2 { end.yield() }
      }
      // No server listens there.
      let location = try S3Location(
        bucket: "bucket", prefix: "users", endpoint: "http://127.0.0.1:1", provider: .amazon)
      let client = BucketClient(
        location, .fixed(S3Keys(accessKeyID: "id", secretAccessKey: "secret")),
        timeout: .seconds(60)
      ) { () async throws(ObjectStoreError) -> String? in
        // The test ends also when the reading does not.
        let timer = Task {
          try await Task.sleep(for: .seconds(30))
          end.finish()
        }
        defer { timer.cancel() }
        for await _ in ended { return "the reading has ended" }
        return "the reading goes on"
      }
      let error = await #expect(throws: ObjectStoreError.self) {
        try await S3ObjectStore(client).put(Self.name, long)
      }
      #expect(error?.code == .unavailable && error?.mayHaveHadEffect == false)
      #expect(error?.message.hasPrefix("the reading has ended: ") == true, "\(error as Any)")
    }

    @Test func bodyThatCannotBeReadAgainHasNoEffect() async throws {
      let server = try await BucketServer { _, _ in .answer(200) }
      let objects = try server.objects()
      let reads = Counter()
      let whole = body(3 << 20)
      let broken = ObjectBody(byteCount: 3 << 20) { visit throws(StoreError) in
        reads.add()
        if reads.value == 1 { return try whole.forEachPiece(visit) }
        _ = [UInt8](repeating: 1, count: 1 << 20).withUnsafeBytes { visit($0) }
        throw StoreError(.corrupted, "a segment is damaged")
      }
      do throws(ObjectStoreError) {
        try await objects.put(Self.name, broken)
        Issue.record("the body was accepted")
      } catch {
        #expect(error.code == .unreadableBody && error.object == Self.name)
        #expect(error.message.contains("a segment is damaged") && !error.mayHaveHadEffect)
      }
      #expect(server.received.isEmpty)
    }

    @Test func bodyOfAnotherLengthIsRefused() async throws {
      let server = try await BucketServer { _, _ in .answer(200) }
      let objects = try server.objects()
      for count in [2, 4] {
        let body = ObjectBody(byteCount: 3) { visit in
          _ = [UInt8](repeating: 1, count: count).withUnsafeBytes { visit($0) }
        }
        do throws(ObjectStoreError) {
          try await objects.put(Self.name, body)
          Issue.record("the body was accepted")
        } catch { #expect(error.code == .unreadableBody && !error.mayHaveHadEffect) }
      }
      #expect(server.received.isEmpty)
    }
  }
#endif
