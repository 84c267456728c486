#if S3
  import MoraineArchive
  import MoraineEngine
  import Synchronization
  import Testing

  @testable import MoraineS3

  /// Requests, and the meaning of the answers.
  @Suite(.timeLimit(.minutes(2))) struct S3AnswerTests {
    /// A row of the table of answers.
    struct Row: Sendable, CustomTestStringConvertible {
      let status: Int
      var code = ""
      let error: ObjectStoreError.Code
      /// Whether a request that writes may have had its effect.
      var isOpen = false
      /// A part of the message.
      let says: String

      var testDescription: String { "\(status) \(code)" }
    }

    static let rows = [
      Row(status: 301, code: "PermanentRedirect", error: .denied, says: "correct the region"),
      Row(status: 307, code: "TemporaryRedirect", error: .denied, says: "correct the region"),
      Row(status: 400, code: "AuthorizationHeaderMalformed", error: .denied, says: "region"),
      Row(status: 400, code: "InvalidRequest", error: .denied, says: "refuses the request"),
      Row(status: 400, code: "RequestTimeout", error: .unavailable, says: "did not arrive whole"),
      Row(status: 400, code: "ExpiredToken", error: .denied, says: "have expired"),
      Row(status: 400, code: "NotImplemented", error: .unsupported, says: "does not implement"),
      Row(status: 403, code: "SignatureDoesNotMatch", error: .denied, says: "the secret key"),
      Row(
        status: 403, code: "InvalidAccessKeyId", error: .denied, says: "does not know the access"),
      Row(status: 403, code: "RequestTimeTooSkewed", error: .denied, says: "the clock"),
      Row(status: 403, code: "QuotaExceeded", error: .noSpace, says: "quota"),
      Row(status: 404, code: "NoSuchBucket", error: .denied, says: "does not exist"),
      Row(status: 404, error: .unavailable, says: "look for a proxy"),
      Row(status: 408, error: .unavailable, isOpen: true, says: "did not arrive whole"),
      Row(status: 409, code: "ConditionalRequestConflict", error: .unavailable, says: "another"),
      Row(status: 429, code: "TooManyRequests", error: .unavailable, says: "fewer requests"),
      Row(status: 500, code: "InternalError", error: .unavailable, isOpen: true, says: "a failure"),
      Row(status: 501, error: .unsupported, says: "does not implement"),
      Row(status: 502, error: .unavailable, isOpen: true, says: "a failure"),
      Row(status: 503, code: "SlowDown", error: .unavailable, says: "too many requests"),
      Row(status: 504, error: .unavailable, isOpen: true, says: "a failure"),
      Row(status: 507, error: .noSpace, says: "full"),
    ]

    private static let name = objectName("log/1")

    private func error(
      _ request: () async throws(ObjectStoreError) -> Void
    ) async -> ObjectStoreError? {
      do throws(ObjectStoreError) { try await request() } catch { return error }
      return nil
    }

    /// Each answer has its error, and no request is repeated: the caller decides about that.
    @Test(arguments: rows) func refusalHasItsError(row: Row) async throws {
      let server = try await BucketServer { _, _ in .refusal(row.status, row.code) }
      let objects = try server.objects()
      let create = await error { () async throws(ObjectStoreError) in
        _ = try await objects.create(Self.name, ObjectBody([1, 2, 3]))
      }
      let put = await error { () async throws(ObjectStoreError) in
        try await objects.put(Self.name, ObjectBody([1, 2, 3]))
      }
      let get = await error { () async throws(ObjectStoreError) in
        _ = try await objects.get(Self.name, nil)
      }
      let remove = await error { () async throws(ObjectStoreError) in
        try await objects.remove([Self.name])
      }
      let list = await error { () async throws(ObjectStoreError) in
        _ = try await objects.list(under: .root, after: nil, limit: 5)
      }
      for (error, changes) in [
        (create, true), (put, true), (get, false), (remove, true), (list, false),
      ] {
        #expect(error?.code == row.error)
        #expect(error?.mayHaveHadEffect == (row.isOpen && changes))
        #expect(error?.message.contains(row.says) == true, "\(error?.message ?? "")")
        #expect(error?.message.contains("127.0.0.1") == true)
        if !row.code.isEmpty { #expect(error?.message.contains(row.code) == true) }
      }
      #expect(create?.object == Self.name && list?.object == nil)
      #expect(server.received.map(\.method) == ["PUT", "PUT", "GET", "DELETE", "GET"])
    }

    @Test func onlyACertainAbsenceIsOne() async throws {
      let answers = Mutex<[BucketServer.Reply]>([])
      let server = try await BucketServer { _, _ in answers.withLock { $0.removeFirst() } }
      let objects = try server.objects()
      answers.withLock { $0 = [.refusal(404, "NoSuchKey"), .refusal(404, "NoSuchKey")] }
      #expect(try await objects.get(Self.name, nil) == nil)
      #expect(try await objects.get(Self.name, 3..<5) == nil)
      for reply in [
        BucketServer.Reply.refusal(403, "AccessDenied"), .answer(404), .answer(404, [:], "<html>"),
        .refusal(404, "NoSuchBucket"), .refusal(404, "NoSuchUpload"), .refusal(410, "NoSuchKey"),
        .answer(302, ["location": "/"]), .refusal(416, "InvalidRange"), .cut(200, length: 9, "abc"),
      ] {
        answers.withLock { $0 = [reply] }
        let error = await error { () async throws(ObjectStoreError) in
          _ = try await objects.get(Self.name, nil)
        }
        #expect(error != nil, "\(reply)")
      }
      answers.withLock { $0 = [.refusal(403, "AccessDenied")] }
      let denied = await error { () async throws(ObjectStoreError) in
        _ = try await objects.get(Self.name, nil)
      }
      #expect(denied?.code == .denied && denied?.message.contains("s3:ListBucket") == true)
    }

    /// The page of a proxy is no confirmation.
    @Test func successWithoutAnETagIsNotBelieved() async throws {
      let server = try await BucketServer { _, request in
        request.header("range") == nil
          ? .answer(200, ["no-etag": "1"], "<html/>")
          : .answer(206, ["no-etag": "1", "content-range": "bytes 0-2/7"], "<ht")
      }
      let objects = try server.objects()
      let created = await error { () async throws(ObjectStoreError) in
        _ = try await objects.create(Self.name, ObjectBody([7]))
      }
      let put = await error { () async throws(ObjectStoreError) in
        try await objects.put(Self.name, ObjectBody([7]))
      }
      for error in [created, put] {
        #expect(error?.code == .unavailable && error?.mayHaveHadEffect == true)
      }
      for range in [nil, 0..<3] as [Range<Int>?] {
        let get = await error { () async throws(ObjectStoreError) in
          _ = try await objects.get(Self.name, range)
        }
        #expect(get?.code == .unavailable && get?.mayHaveHadEffect == false)
        #expect(get?.message.contains("look for a proxy") == true)
      }
    }

    @Test func creationAsksForAFreeName() async throws {
      let server = try await BucketServer { number, _ in
        number == 0 ? .answer(200) : .refusal(412, "PreconditionFailed")
      }
      let objects = try server.objects()
      #expect(try await objects.create(Self.name, ObjectBody([7])) == .created)
      #expect(try await objects.create(Self.name, ObjectBody([7])) == .exists)
      let put = await error { () async throws(ObjectStoreError) in
        try await objects.put(Self.name, ObjectBody([7]))
      }
      #expect(put?.code == .unsupported)
      let received = server.received
      #expect(received.map { $0.header("if-none-match") } == ["*", "*", nil])
      #expect(received.allSatisfy { $0.uri == "/bucket/users/log/1" && $0.body == [7] })
      #expect(received.allSatisfy { $0.header("content-length") == "1" })
      #expect(received.allSatisfy { $0.header("transfer-encoding") == nil })
      #expect(received.allSatisfy { $0.header("host") == "127.0.0.1:\(server.port)" })
    }

    @Test func providersHaveTheirHeaders() async throws {
      let server = try await BucketServer { _, _ in .answer(200) }
      for provider in [S3Provider.tigris, .googleCloud, .cloudflareR2] {
        let objects = try server.objects(provider: provider)
        #expect(try await objects.create(Self.name, ObjectBody([])) == .created)
      }
      let received = server.received
      #expect(received[0].header("x-tigris-consistent") == "true")
      #expect(received[0].header("if-none-match") == "*")
      #expect(received[1].header("x-goog-if-generation-match") == "0")
      #expect(received[1].header("if-none-match") == nil)
      #expect(
        received[1].header("authorization")?.contains(
          "host;x-goog-content-sha256;x-goog-date;x-goog-if-generation-match") == true)
      #expect(!received[1].headers.contains { $0.name.hasPrefix("x-amz-") })
      #expect(received[2].header("if-none-match") == "*")
    }

    @Test func requestWithoutAnAnswerMayHaveHadItsEffect() async throws {
      for reply in [BucketServer.Reply.closed, .silence, .cut(500, length: 100, "<Err")] {
        let server = try await BucketServer { _, _ in reply }
        let isSilent = if case .silence = reply { true } else { false }
        let objects = try server.objects(timeout: isSilent ? .milliseconds(300) : .seconds(60))
        let create = await error { () async throws(ObjectStoreError) in
          _ = try await objects.create(Self.name, ObjectBody([1]))
        }
        #expect(create?.code == .unavailable && create?.mayHaveHadEffect == true, "\(reply)")
        let get = await error { () async throws(ObjectStoreError) in
          _ = try await objects.get(Self.name, nil)
        }
        #expect(get?.code == .unavailable && get?.mayHaveHadEffect == false, "\(reply)")
        #expect(server.received.count == 2, "no request is repeated")
      }
    }

    @Test func requestWithoutAConnectionHasNoEffect() async throws {
      let objects: S3ObjectStore
      do { objects = try await BucketServer { _, _ in .answer(200) }.objects() }
      // The server has gone, or goes soon: until then a connection may still exist.
      var last: ObjectStoreError?
      while last?.message.contains("no connection") != true, last?.code != .cancelled {
        last = await error { () async throws(ObjectStoreError) in
          _ = try await objects.create(Self.name, ObjectBody([1]))
        }
      }
      #expect(last?.code == .unavailable && last?.mayHaveHadEffect == false)
    }

    @Test func cancelledRequestReportsTheCancellation() async throws {
      let (arrived, arrival) = AsyncStream.makeStream(of: Void.self)
      let server = try await BucketServer { _, _ in
        arrival.yield()
        return .silence
      }
      let objects = try server.objects()
      let task = Task {
        await error { () async throws(ObjectStoreError) in
          _ = try await objects.create(Self.name, ObjectBody([1]))
        }
      }
      for await _ in arrived { break }
      task.cancel()
      let found = await task.value
      #expect(found?.code == .cancelled && found?.mayHaveHadEffect == true)
    }
  }

  /// Parts of objects, and lists.
  extension S3AnswerTests {
    @Test func partIsTheRequestedOne() async throws {
      let answers = Mutex<[BucketServer.Reply]>([])
      let server = try await BucketServer { _, _ in answers.withLock { $0.removeFirst() } }
      let objects = try server.objects()
      func get(_ range: Range<Int>, _ reply: BucketServer.Reply) async throws -> String? {
        answers.withLock { $0 = [reply] }
        return try await objects.get(Self.name, range).map { String(decoding: $0, as: UTF8.self) }
      }
      let part = ["content-range": "bytes 2-4/10"]
      #expect(try await get(2..<5, .answer(206, part, "234")) == "234")
      #expect(try await get(2..<99, .answer(206, ["content-range": "bytes 2-3/4"], "23")) == "23")
      #expect(try await get(2..<5, .answer(200, [:], "0123456789")) == "234")
      #expect(try await get(8..<50, .answer(200, [:], "0123456789")) == "89")
      #expect(try await get(50..<60, .refusal(416, "InvalidRange")) == "")
      #expect(try await get(2..<2, .answer(206, ["content-range": "bytes 2-2/9"], "2")) == "")
      #expect(
        try await get(3..<Int.max, .answer(206, ["content-range": "bytes 3-3/4"], "3")) == "3")
      #expect(
        server.received.map { $0.header("range") } == [
          "bytes=2-4", "bytes=2-98", "bytes=2-4", "bytes=8-49", "bytes=50-59", "bytes=2-2",
          "bytes=3-",
        ])
      for (range, headers, text) in [
        (2..<5, ["content-range": "bytes 1-3/10"], "123"), (2..<5, part, "23"), (2..<5, [:], "234"),
        (2..<4, part, "234"), (2..<5, ["content-range": "2-4"], "234"),
        // Another part that ends where the object ends.
        (2..<5, ["content-range": "bytes 1-3/4"], "123"),
        // A part that ends too early, as some caches answer.
        (2..<9, part, "234"), (2..<5, ["content-range": "bytes 2-3/10"], "23"),
        // Numbers that are no places.
        (0..<5, ["content-range": "bytes 0-9223372036854775807/*"], "01234"),
        (2..<5, ["content-range": "bytes 2-9223372036854775807/9223372036854775807"], "234"),
        (2..<5, ["content-range": "bytes 2-9223372036854775808/*"], "234"),
      ] {
        let error = await #expect(throws: ObjectStoreError.self, "\(headers) \(text)") {
          try await get(range, .answer(206, headers, text))
        }
        #expect(error?.code == .unavailable)
      }
    }

    /// The rest of these answers never arrives. A server may also send without end.
    @Test func answerToARangeIsReadNoFurtherThanItsEnd() async throws {
      let server = try await BucketServer { number, _ in
        number == 0
          ? .stalled(200, length: 1 << 40, "0123456789")
          : .stalled(206, ["content-range": "bytes 2-4/*"], length: 1 << 40, "23456789")
      }
      let objects = try server.objects(idleLimit: .seconds(20))
      #expect(try await objects.get(Self.name, 2..<5) == Array("234".utf8))
      let error = await error { () async throws(ObjectStoreError) in
        _ = try await objects.get(Self.name, 2..<5)
      }
      #expect(error?.code == .unavailable && error?.mayHaveHadEffect == false)
      #expect(error?.message.contains("longer than requested") == true)
    }

    @Test func listGoesOnUntilItsEndOrItsLimit() async throws {
      let server = try await BucketServer { number, _ in
        let keys = ["users/a/1", "users/Other", "users/a/\(number + 2)"]
          .map { "<Contents><Key>\($0)</Key></Contents>" }.joined()
        let end = "<IsTruncated>false</IsTruncated>"
        let more =
          "<IsTruncated>true</IsTruncated>"
          + "<NextContinuationToken>t&amp;\(number)</NextContinuationToken>"
        return .answer(200, [:], "<L>\(number == 1 ? end : more)\(keys)</L>")
      }
      let objects = try server.objects()
      let names = try await objects.list(
        under: objectName("a"), after: objectName("a/0"), limit: .max)
      #expect(names.map(\.text) == ["a/1", "a/2", "a/1", "a/3"])
      #expect(try await objects.list(under: .root, after: nil, limit: 2).count == 2)
      #expect(try await objects.list(under: .root, after: nil, limit: 0).isEmpty)
      #expect(
        server.received.map(\.uri) == [
          "/bucket/?list-type=2&max-keys=1000&prefix=users%2Fa%2F&start-after=users%2Fa%2F0",
          "/bucket/?continuation-token=t%260&list-type=2&max-keys=1000&prefix=users%2Fa%2F",
          "/bucket/?list-type=2&max-keys=2&prefix=users%2F",
        ])
    }

    @Test func listThatCannotBeReadIsAnError() async throws {
      let server = try await BucketServer { _, _ in .answer(200, [:], "<L><Key>users/a</Key>") }
      let objects = try server.objects()
      let error = await error { () async throws(ObjectStoreError) in
        _ = try await objects.list(under: .root, after: nil, limit: 5)
      }
      #expect(error?.code == .unavailable)
    }
  }

  /// Answers that take their time.
  extension S3AnswerTests {
    /// Regression: sixty seconds were the limit, whatever the limit of the request was.
    @Test func answerMayBeginAsLateAsTheRequestPermits() async throws {
      let server = try await BucketServer { _, _ in
        .late(milliseconds: 1500, .answer(200, [:], "abc"))
      }
      let objects = try server.objects(idleLimit: .seconds(1))
      #expect(try await objects.get(Self.name, nil) == Array("abc".utf8))
    }

    @Test func answerThatStallsIsAnError() async throws {
      let server = try await BucketServer { _, _ in .stalled(200, length: 9, "abc") }
      let objects = try server.objects(idleLimit: .milliseconds(200))
      let get = await error { () async throws(ObjectStoreError) in
        _ = try await objects.get(Self.name, nil)
      }
      let put = await error { () async throws(ObjectStoreError) in
        try await objects.put(Self.name, ObjectBody([1]))
      }
      for (error, changes) in [(get, false), (put, true)] {
        #expect(error?.code == .unavailable && error?.mayHaveHadEffect == changes)
        #expect(error?.message.contains("no answer in time") == true)
      }
    }

    @Test func slowAnswerIsReadWhileItArrives() async throws {
      let pieces = ["ab", "cd", "ef", "gh", "ij", "kl"]
      let server = try await BucketServer { _, _ in .slow(pieces, pauseMilliseconds: 400) }
      let objects = try server.objects(idleLimit: .milliseconds(1500))
      #expect(try await objects.get(Self.name, nil) == Array(pieces.joined().utf8))
    }

    /// An error of the search for a cause says that nothing was changed.
    @Test func searchForACauseReplacesNoFailure() async {
      let failure = ObjectStoreError(
        .unavailable, "no answer", object: Self.name, mayHaveHadEffect: true)
      let explained = await BucketClient.explained(failure) {
        () async throws(ObjectStoreError) in "a cause"
      }
      #expect(explained.message == "a cause: no answer")
      let unexplained = await BucketClient.explained(failure) {
        () async throws(ObjectStoreError) in
        throw ObjectStoreError(.cancelled, "the task was cancelled", mayHaveHadEffect: false)
      }
      #expect(unexplained.message == "no answer")
      for error in [explained, unexplained] {
        #expect(error.code == .unavailable && error.mayHaveHadEffect && error.object == Self.name)
      }
    }
  }
#endif
