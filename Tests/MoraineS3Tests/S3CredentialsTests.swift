#if S3
  import Foundation
  import MoraineArchive
  import MoraineStorage
  import Synchronization
  import Testing

  @testable import MoraineS3

  /// The keys with which requests are signed, and the time of the signatures.
  @Suite(.timeLimit(.minutes(2))) struct S3CredentialsTests {
    private static let name = objectName("log/1")

    /// A source that gives other keys each time.
    private final class Source: Sendable {
      private let count = Atomic(0)
      var questionCount: Int { count.load(ordering: .sequentiallyConsistent) }

      var credentials: S3Credentials {
        .provider {
          let number = self.count.add(1, ordering: .sequentiallyConsistent).newValue
          return S3Keys(
            accessKeyID: "id\(number)", secretAccessKey: "s", sessionToken: "t\(number)")
        }
      }
    }

    private static func usesKeys(_ number: Int, _ request: BucketServer.Received) -> Bool {
      request.header("authorization")?.contains("Credential=id\(number)/") == true
        && request.header("x-amz-security-token") == "t\(number)"
    }

    @Test(arguments: [
      (400, "ExpiredToken"), (400, "InvalidToken"), (403, "ExpiredToken"),
      (403, "InvalidAccessKeyId"), (400, "TokenRefreshRequired"), (403, "SignatureDoesNotMatch"),
    ])
    func expiredKeysAreReplaced(status: Int, code: String) async throws {
      let server = try await BucketServer { _, request in
        Self.usesKeys(2, request) ? .answer(200) : .refusal(status, code)
      }
      let source = Source()
      let objects = try server.objects(source.credentials)
      #expect(try await objects.create(Self.name, ObjectBody([1, 2])) == .created)
      #expect(source.questionCount == 2)
      try await objects.put(Self.name, ObjectBody([1, 2]))
      #expect(source.questionCount == 2)
      #expect(server.received.map(\.body) == [[1, 2], [1, 2], [1, 2]])
    }

    @Test func keysThatStayWrongAreAnError() async throws {
      let server = try await BucketServer { _, _ in .refusal(403, "InvalidAccessKeyId") }
      let source = Source()
      for (credentials, count) in [
        (source.credentials, 2), (.fixed(S3Keys(accessKeyID: "a", secretAccessKey: "b")), 1),
      ] {
        let before = server.received.count
        let objects = try server.objects(credentials)
        await #expect(throws: ObjectStoreError.self) { try await objects.get(Self.name, nil) }
        #expect(server.received.count - before == count)
      }
      #expect(source.questionCount == 2)
    }

    @Test func keysAreReplacedBeforeTheyExpire() async throws {
      let now = Atomic<UInt64>(1_000_000)
      let questions = Mutex<[Result<UInt64?, any Error>]>([])
      let ring = KeyRing(
        .provider {
          let expiry = try questions.withLock { try $0.removeFirst().get() }
          return S3Keys(
            accessKeyID: "\(expiry ?? 0)", secretAccessKey: "s", expiryMilliseconds: expiry)
        },
        now: { now.load(ordering: .relaxed) })
      struct Failure: Error {}
      questions.withLock {
        $0 = [.success(2_000_000), .failure(Failure()), .success(3_000_000), .failure(Failure())]
      }
      #expect(try await ring.keys().accessKeyID == "2000000")
      now.store(2_000_000 - KeyRing.reserveMilliseconds - 1, ordering: .relaxed)
      #expect(try await ring.keys().accessKeyID == "2000000")
      #expect(questions.withLock { $0.count } == 3)
      // The source fails; the keys are still valid, and the source has a pause.
      now.add(1, ordering: .relaxed)
      for _ in 0..<3 { #expect(try await ring.keys().accessKeyID == "2000000") }
      #expect(questions.withLock { $0.count } == 2)
      now.add(10_000, ordering: .relaxed)
      #expect(try await ring.keys().accessKeyID == "3000000")
      now.store(3_000_000, ordering: .relaxed)
      await #expect(throws: ObjectStoreError.self) { try await ring.keys() }
    }

    /// Regression: the source was asked for each request, where the clock was ahead by more than
    /// the keys are valid, and where each answer of the source had another time.
    @Test(arguments: [3_600_000, -60_000] as [Int64])
    func keysThatAreDueAlreadyAreUsedForAWhile(expiredFor: Int64) async throws {
      let now = Atomic<UInt64>(10_000_000_000)
      let questions = Atomic(0)
      let ring = KeyRing(
        .provider {
          let number = questions.add(1, ordering: .relaxed).newValue
          return S3Keys(
            accessKeyID: "a", secretAccessKey: "s",
            expiryMilliseconds: UInt64(10_000_000_000 - expiredFor + Int64(number)))
        },
        now: { now.load(ordering: .relaxed) })
      for _ in 0..<20 { _ = try await ring.keys() }
      #expect(questions.load(ordering: .relaxed) == 1)
      // The server refuses them.
      let first = try await ring.keys()
      let second = try await ring.keys(besides: first)
      #expect(second != first && questions.load(ordering: .relaxed) == 2)
      // The clock is corrected, and the pause ends.
      now.store(9_999_800_000, ordering: .relaxed)
      _ = try await ring.keys()
      #expect(questions.load(ordering: .relaxed) == 3)
    }

    @Test func concurrentRequestsAskOnce() async throws {
      let server = try await BucketServer { _, request in
        Self.usesKeys(1, request) ? .refusal(403, "ExpiredToken") : .answer(200)
      }
      let source = Source()
      let objects = try server.objects(source.credentials)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<20 { group.addTask { try await objects.put(Self.name, ObjectBody([1])) } }
        try await group.waitForAll()
      }
      #expect(source.questionCount == 2)
    }

    @Test func failureOfTheSourceIsTheError() async throws {
      struct Failure: Error {}
      let server = try await BucketServer { _, _ in .answer(200) }
      let failing = try server.objects(.provider { throw Failure() })
      let error = await #expect(throws: ObjectStoreError.self) {
        try await failing.get(Self.name, nil)
      }
      #expect(error?.code == .unavailable && error?.message.contains("source of the keys") == true)
      let denied = try server.objects(
        .provider { throw ObjectStoreError(.denied, "no role", mayHaveHadEffect: false) })
      let other = await #expect(throws: ObjectStoreError.self) {
        try await denied.get(Self.name, nil)
      }
      #expect(other?.code == .denied && other?.message == "no role")
      #expect(server.received.isEmpty)
    }
  }

  /// Places in which keys are found.
  extension S3CredentialsTests {
    @Test func environmentHasKeys() {
      var variables = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
      #expect(
        S3Credentials.environmentKeys { variables[$0] }
          == S3Keys(accessKeyID: "a", secretAccessKey: "b"))
      variables["AWS_SESSION_TOKEN"] = "c"
      #expect(S3Credentials.environmentKeys { variables[$0] }?.sessionToken == "c")
      variables["AWS_SECRET_ACCESS_KEY"] = ""
      #expect(S3Credentials.environmentKeys { variables[$0] } == nil)
    }

    @Test func profileHasKeys() async throws {
      let folder = FileManager.default.temporaryDirectory
        .appendingPathComponent("moraine-\(UUID().uuidString)")
      let aws = folder.appendingPathComponent(".aws")
      try FileManager.default.createDirectory(at: aws, withIntermediateDirectories: true)
      defer {
        do { try FileManager.default.removeItem(at: folder) } catch {
          print("left: \(folder.path)")
        }
      }
      let text = """
        # a comment
        [default]
        aws_access_key_id = A1
        aws_secret_access_key=abc/+=

        [other]\r
        ; a comment
         AWS_ACCESS_KEY_ID =  A2 \r
        aws_secret_access_key = def
        aws_session_token = tok=en
        [role]
        role_arn = arn:x
        """
      try text.write(
        to: aws.appendingPathComponent("credentials"), atomically: true, encoding: .utf8)
      var variables = ["HOME": folder.path]
      func keys(_ profile: String? = nil) async throws(ObjectStoreError) -> S3Keys {
        try await CredentialsFile({ variables[$0] }, profile: profile).keys()
      }
      #expect(try await keys() == S3Keys(accessKeyID: "A1", secretAccessKey: "abc/+="))
      let other = S3Keys(accessKeyID: "A2", secretAccessKey: "def", sessionToken: "tok=en")
      #expect(try await keys("other") == other)
      variables["AWS_PROFILE"] = "other"
      #expect(try await keys() == other)
      for (profile, part) in [("role", "no aws_access_key_id"), ("none", "no profile 'none'")] {
        let error = await #expect(throws: ObjectStoreError.self) { try await keys(profile) }
        #expect(error?.code == .denied && error?.message.contains(part) == true)
      }
      variables["HOME"] = "/nowhere"
      let error = await #expect(throws: ObjectStoreError.self) { try await keys() }
      #expect(error?.message.contains("no file '/nowhere/.aws/credentials'") == true)
      variables["AWS_SHARED_CREDENTIALS_FILE"] = aws.appendingPathComponent("credentials").path
      #expect(try await keys() == other)
    }

    /// Regression: Kubernetes replaces keys by replacing a link, and links were refused.
    @Test func fileOfKeysMayBeALink() async throws {
      let manager = FileManager.default
      let folder = manager.temporaryDirectory.appendingPathComponent("moraine-\(UUID().uuidString)")
      let first = folder.appendingPathComponent("..1")
      try manager.createDirectory(at: first, withIntermediateDirectories: true)
      defer {
        do { try manager.removeItem(at: folder) } catch { print("left: \(folder.path)") }
      }
      try "[default]\naws_access_key_id = A1\naws_secret_access_key = s\n".write(
        to: first.appendingPathComponent("credentials"), atomically: true, encoding: .utf8)
      for (link, target) in [("..data", "..1"), ("credentials", "..data/credentials")] {
        try manager.createSymbolicLink(
          atPath: folder.appendingPathComponent(link).path, withDestinationPath: target)
      }
      let path = folder.appendingPathComponent("credentials").path
      let keys = try await CredentialsFile({ _ in nil }, path: path).keys()
      #expect(keys == S3Keys(accessKeyID: "A1", secretAccessKey: "s"))
      let error = await #expect(throws: ObjectStoreError.self) {
        try await CredentialsFile({ _ in nil }, path: folder.path).keys()
      }
      #expect(error?.code == .denied && error?.message.contains("cannot read the keys") == true)
    }

    @Test func secretIsNotPrinted() {
      let keys = S3Keys(accessKeyID: "public", secretAccessKey: "hidden", sessionToken: "hidden")
      #expect(!"\(keys)".contains("hidden"))
    }
  }

  /// Machines whose clock is wrong.
  extension S3CredentialsTests {
    private static func header(_ milliseconds: Int64) -> String {
      let formatter = DateFormatter()
      formatter.locale = Locale(identifier: "en_US_POSIX")
      formatter.timeZone = TimeZone(secondsFromGMT: 0)
      formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
      return formatter.string(from: Date(timeIntervalSince1970: Double(milliseconds) / 1000))
    }

    @Test(arguments: [-3_600_000, 86_400_000, 4_000_000_000] as [Int64])
    func timeOfTheServerIsUsedOnce(offset: Int64) async throws {
      let ahead = { @Sendable in Int64(SystemClock.wallMilliseconds()) + offset }
      let server = try await BucketServer { _, request in
        // The stamps differ by a few seconds, and only the hour counts here.
        let hours = [-10_000, 0, 10_000].map {
          SigningTime(milliseconds: ahead() + $0).stamp.prefix(11)
        }
        let stamp = request.header("x-amz-date")?.prefix(11) ?? ""
        return hours.contains(stamp)
          ? .answer(200) : .refusal(403, "RequestTimeTooSkewed", ["date": Self.header(ahead())])
      }
      let objects = try server.objects()
      #expect(try await objects.create(Self.name, ObjectBody([1])) == .created)
      #expect(server.received.count == 2)
      try await objects.put(Self.name, ObjectBody([1]))
      #expect(server.received.count == 3)
    }

    @Test func clockThatStaysWrongIsAnError() async throws {
      for date in [["date": Self.header(1_000_000_000_000)], ["date": "yesterday"]] {
        let server = try await BucketServer { _, _ in
          .refusal(403, "RequestTimeTooSkewed", date)
        }
        let objects = try server.objects()
        let error = await #expect(throws: ObjectStoreError.self) {
          try await objects.get(Self.name, nil)
        }
        #expect(error?.code == .denied && error?.message.contains("clock") == true)
        #expect(server.received.count == (date["date"] == "yesterday" ? 1 : 2))
      }
    }
  }
#endif
