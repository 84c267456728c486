#if S3
  import AsyncHTTPClient
  import Crypto
  import MoraineArchive
  import MoraineStorage
  import NIOCore
  import NIOHTTP1
  import NIOPosix
  import NIOSSL
  import Synchronization
  import SystemPackage

  /// Sends signed requests to a bucket.
  ///
  /// It repeats a request only when the server has refused it before it looked at the objects: once
  /// with newer keys, and once with the server's time. All other repetitions are the caller's.
  final class BucketClient: Sendable {
    /// Looks for a problem of this machine that may be the cause of a failure; nil for none.
    typealias Search = @Sendable () async throws(ObjectStoreError) -> String?

    let location: S3Location
    private let signer: RequestSigner
    private let keys: KeyRing
    private let timeout: Duration
    /// How long no byte of an answer's body may arrive.
    private let idleLimit: Duration
    let uploads: UploadLimit?
    private let lanes = RequestLanes()
    /// A test's search, in place of the client's own.
    private let search: Search?
    private let clock: ServerClock

    /// One client for the process: its connections are shared by all buckets of a host. It lives as
    /// long as the process, so that no store of objects need be closed.
    private static let http: HTTPClient = {
      var configuration = HTTPClient.Configuration()
      // A signature is valid for one host and path.
      configuration.redirectConfiguration = .disallow
      // The probe sends its racing requests over connections of their own.
      configuration.httpVersion = .http1Only
      configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 32
      // Servers close idle connections, some after few seconds. A request on a connection that is
      // being closed has no answer.
      configuration.connectionPool.idleTimeout = .seconds(4)
      configuration.connectionPool.retryConnectionEstablishment = false
      configuration.timeout.connect = .seconds(10)
      // No `timeout.read`: it would also limit the time until an answer begins, which is the
      // caller's.
      // A server of one's own may have a certificate that this machine's authorities have not
      // signed. Other clients of S3 read the same variable.
      if let authorities = CurrentProcess.environment("AWS_CA_BUNDLE"), !authorities.isEmpty {
        var security = TLSConfiguration.makeClientConfiguration()
        security.trustRoots = .file(authorities)
        configuration.tlsConfiguration = security
      }
      return HTTPClient(
        eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }()

    /// Bodies up to this length are kept in memory between the digest and the request.
    private static let shortBodyBytes = 1 << 20
    /// The slowest upload that does not time out, in bytes a second.
    private static let slowestUpload = 64 << 10
    /// The most bytes that are read of a refusal.
    private static let refusalLimit = 64 << 10

    init(
      _ location: S3Location, _ credentials: S3Credentials, timeout: Duration,
      idleLimit: Duration = .seconds(60), search: Search? = nil
    ) {
      precondition(timeout > .zero, "a request needs time")
      precondition(idleLimit > .zero, "an answer needs time")
      self.location = location
      self.idleLimit = idleLimit
      signer = RequestSigner(scheme: location.provider.scheme, region: location.region)
      let clock = ServerClock()
      self.clock = clock
      keys = KeyRing(credentials) { UInt64(max(0, clock.milliseconds)) }
      self.timeout = timeout
      self.search = search
      uploads = location.provider.uploadLimit.map { UploadLimit($0) }
    }

    /// Reads a body once, for its digest.
    ///
    /// - Throws: `.unreadableBody`; `.cancelled`.
    func prepare(_ body: ObjectBody) async throws(ObjectStoreError) -> PreparedBody {
      try await lanes.run { () throws(ObjectStoreError) in
        let keeps = body.byteCount <= Self.shortBodyBytes
        var (hash, bytes, count) = (SHA256(), [UInt8](), 0)
        try body.visit { piece in
          hash.update(bufferPointer: piece)
          count += piece.count
          if keeps { bytes.append(contentsOf: piece) }
          return true
        }
        guard count == body.byteCount else {
          throw ObjectStoreError(
            .unreadableBody,
            "the body of an object should have \(body.byteCount) bytes, and has \(count)",
            mayHaveHadEffect: false)
        }
        return PreparedBody(
          body: body, digest: RequestSigner.digits(hash.finalize()), bytes: keeps ? bytes : nil)
      }
    }

    /// Sends a request, and returns the answer, also a refusal.
    ///
    /// - Throws: `.unavailable` without an answer, or when other uploads take too long;
    ///   `.cancelled`; the error of the source of the keys.
    func send(_ request: BucketRequest) async throws(ObjectStoreError) -> BucketAnswer {
      let cancelled = ObjectStoreError(
        .cancelled, "the task was cancelled", object: request.object, mayHaveHadEffect: false)
      if Task.isCancelled { throw cancelled }
      guard request.verb == .put, let uploads else { return try await signAndSend(request) }
      guard await uploads.enter(within: patience(request)) else {
        if Task.isCancelled { throw cancelled }
        throw ObjectStoreError(
          .unavailable, "\(location.endpoint): other uploads to the bucket have not ended in time",
          object: request.object, mayHaveHadEffect: false)
      }
      defer { uploads.leave() }
      return try await signAndSend(request)
    }

    private func signAndSend(
      _ request: BucketRequest
    ) async throws(ObjectStoreError) -> BucketAnswer {
      var current = try await keys.keys()
      var (hasNewKeys, hasNewTime) = (false, false)
      while true {
        let answer = try await exchange(request, current)
        switch answer.code {
        case "RequestTimeTooSkewed" where !hasNewTime:
          guard adoptTime(of: answer) else { return answer }
          hasNewTime = true
        case "ExpiredToken" where !hasNewKeys, "InvalidAccessKeyId" where !hasNewKeys,
          "InvalidToken" where !hasNewKeys, "TokenRefreshRequired" where !hasNewKeys,
          // The secret part alone may have been replaced.
          "SignatureDoesNotMatch" where !hasNewKeys:
          let newer = try await keys.keys(besides: current)
          guard newer != current else { return answer }
          (current, hasNewKeys) = (newer, true)
        default: return answer
        }
      }
    }

    /// Takes over the time of the server.
    private func adoptTime(of answer: BucketAnswer) -> Bool {
      guard let header = answer.headers["date"],
        let time = SigningTime.milliseconds(ofHeader: header)
      else { return false }
      clock.adopt(time)
      return true
    }

    private func exchange(
      _ request: BucketRequest, _ keys: S3Keys
    ) async throws(ObjectStoreError) -> BucketAnswer {
      var message = signed(request, keys)
      var streamed: StreamedBody?
      if let body = request.body {
        if let bytes = body.bytes {
          message.body = .bytes(ByteBuffer(bytes: bytes))
        } else {
          let stream = StreamedBody()
          streamed = stream
          message.body = .stream(
            stream.start(body.body, on: lanes), length: .known(Int64(body.body.byteCount)))
        }
      }
      defer { streamed?.stop() }
      do {
        let response = try await Self.http.execute(message, deadline: deadline(request))
        return try await answer(response, request)
      } catch {
        // The reading of the body holds a lane until it is stopped, and the search needs one.
        streamed?.stop()
        throw await Self.explained(failure(error, request)) {
          () async throws(ObjectStoreError) -> String? in
          if let search { return try await search() }
          return try await authoritiesProblem()
        }
      }
    }

    /// Returns a failure with a problem of this machine that may be its cause.
    ///
    /// - Parameter problem: looks for the problem. Its own error is not reported: that error says
    ///   that nothing was changed, and the request may have had its effect.
    static func explained(
      _ failure: ObjectStoreError, _ problem: () async throws(ObjectStoreError) -> String?
    ) async -> ObjectStoreError {
      guard failure.code == .unavailable else { return failure }
      do throws(ObjectStoreError) {
        guard let problem = try await problem() else { return failure }
        return ObjectStoreError(
          failure.code, "\(problem): \(failure.message)", object: failure.object,
          mayHaveHadEffect: failure.mayHaveHadEffect)
      } catch {
        return failure
      }
    }

    /// Returns why the file that `AWS_CA_BUNDLE` names cannot be used; nil when it can, or when no
    /// file is named.
    private func authoritiesProblem() async throws(ObjectStoreError) -> String? {
      guard location.scheme == "https", let file = CurrentProcess.environment("AWS_CA_BUNDLE"),
        !file.isEmpty
      else { return nil }
      return try await lanes.run { () throws(ObjectStoreError) in
        do {
          return try NIOSSLCertificate.fromPEMFile(file).isEmpty
            ? "AWS_CA_BUNDLE names \(file), which has no certificate" : nil
        } catch {
          return "AWS_CA_BUNDLE names \(file), from which no certificates can be read (\(error))"
        }
      }
    }

    private func signed(_ request: BucketRequest, _ keys: S3Keys) -> HTTPClientRequest {
      let path = location.path + "/" + PercentEncoding.path(request.key)
      let fields = request.headers + location.provider.headers.map { ($0.name, $0.value) }
      let isSigned = { (name: String) in name.hasPrefix(self.signer.scheme.headerPrefix) }
      let signable = SignableRequest(
        method: request.verb.rawValue, path: path, query: request.query,
        headers: [("host", location.host)] + fields.filter { isSigned($0.name) },
        bodyDigest: request.body?.digest ?? Self.emptyDigest)
      let time = SigningTime(milliseconds: clock.milliseconds)
      let query = signable.encodedQuery
      var message = HTTPClientRequest(
        url: "\(location.scheme)://\(location.host)\(path)" + (query.isEmpty ? "" : "?\(query)"))
      message.method = HTTPMethod(rawValue: request.verb.rawValue)
      for field in signer.headers(for: signable, keys, at: time) {
        message.headers.add(name: field.name, value: field.value)
      }
      for field in fields where !isSigned(field.name) {
        message.headers.add(name: field.name, value: field.value)
      }
      return message
    }

    private static let emptyDigest = RequestSigner.digits(SHA256.hash(data: [UInt8]()))

    /// How long a request may take until its answer begins, and before that wait for other uploads.
    private func patience(_ request: BucketRequest) -> Duration {
      timeout + .seconds((request.body?.body.byteCount ?? 0) / Self.slowestUpload)
    }

    /// The time until which the answer must begin.
    private func deadline(_ request: BucketRequest) -> NIODeadline {
      let (seconds, attoseconds) = patience(request).components
      return .now() + .seconds(seconds) + .nanoseconds(attoseconds / 1_000_000_000)
    }

    /// Reads an answer whose head has arrived.
    ///
    /// - Throws: `HTTPClientError.readTimeout` when no byte arrives for ``idleLimit``.
    private func answer(
      _ response: HTTPClientResponse, _ request: BucketRequest
    ) async throws -> BucketAnswer {
      let arrival = LastArrival()
      return try await withThrowingTaskGroup(of: BucketAnswer.self) { group in
        group.addTask { try await Self.answer(response, request, arrival) }
        group.addTask { [idleLimit] in
          try await arrival.waitForSilence(of: idleLimit)
          throw HTTPClientError.readTimeout
        }
        defer { group.cancelAll() }
        guard let answer = try await group.next() else {
          preconditionFailure("neither of two tasks has ended")
        }
        return answer
      }
    }

    /// The time at which bytes of an answer have last arrived.
    private final class LastArrival: Sendable {
      private let time = Mutex(SuspendingClock.now)

      func update() { time.withLock { $0 = SuspendingClock.now } }

      /// Returns when nothing has arrived for so long.
      func waitForSilence(of limit: Duration) async throws {
        while true {
          let end = time.withLock { $0 } + limit
          if SuspendingClock.now >= end { return }
          try await Task.sleep(until: end, clock: .suspending)
        }
      }
    }

    private static func answer(
      _ response: HTTPClientResponse, _ request: BucketRequest, _ arrival: LastArrival
    ) async throws -> BucketAnswer {
      let status = Int(response.status.code)
      let isSuccess = (200..<300).contains(status)
      let limit = request.longestAnswer(status: status)
      let end = isSuccess ? request.endOfInterest(status: status) : refusalLimit
      var (bytes, isCut) = ([UInt8](), false)
      for try await buffer in response.body {
        arrival.update()
        bytes.append(contentsOf: buffer.readableBytesView)
        if let end, bytes.count >= end {
          isCut = true
          break
        }
        guard bytes.count <= limit else { throw AnswerError.tooLong }
      }
      if isSuccess, !isCut,
        let length = response.headers.first(name: "content-length").flatMap({ Int($0) }),
        request.verb == .get, length != bytes.count
      {
        throw AnswerError.cut
      }
      var headers: [String: String] = [:]
      for name in ["date", "etag", "content-range", "x-amz-bucket-region"] {
        headers[name] = response.headers.first(name: name)
      }
      return BucketAnswer(
        status: status, headers: headers, body: bytes,
        reason: isSuccess ? nil : RefusalReason(bytes))
    }

    private enum AnswerError: Error { case tooLong, cut }

    /// Converts an error without an answer.
    private func failure(_ error: any Error, _ request: BucketRequest) -> ObjectStoreError {
      if let error = error as? ObjectStoreError {
        return ObjectStoreError(
          error.code, error.message, object: request.object,
          mayHaveHadEffect: error.mayHaveHadEffect)
      }
      func unavailable(_ what: String, _ mayHaveHadEffect: Bool) -> ObjectStoreError {
        ObjectStoreError(
          .unavailable, "\(location.endpoint): \(what)", object: request.object,
          mayHaveHadEffect: mayHaveHadEffect && request.changes)
      }
      if error is CancellationError || Task.isCancelled {
        return ObjectStoreError(
          .cancelled, "the task was cancelled", object: request.object,
          mayHaveHadEffect: request.changes)
      }
      if (error as? IOError)?.errnoCode == Errno.connectionRefused.rawValue {
        return unavailable("no connection: no server listens there", false)
      }
      if let failure = error as? NIOSSLError, case .handshakeFailed = failure {
        return unavailable(
          "TLS failed: is the certificate from an authority that this machine knows? "
            + "AWS_CA_BUNDLE names a file of others (\(failure))", false)
      }
      if error is NIOConnectionError { return unavailable("no connection: \(error)", false) }
      switch error as? HTTPClientError {
      case .connectTimeout, .getConnectionFromPoolTimeout, .tlsHandshakeTimeout:
        return unavailable("no connection in time", false)
      case .deadlineExceeded, .readTimeout: return unavailable("no answer in time", true)
      case .remoteConnectionClosed:
        return unavailable("the connection was closed before the answer was complete", true)
      default: break
      }
      switch error as? AnswerError {
      case .tooLong: return unavailable("the answer is longer than requested", true)
      case .cut: return unavailable("the answer was cut", true)
      case nil: return unavailable("\(error)", true)
      }
    }
  }

  /// The time of a server, as far as it is known: that of this machine until an answer has another
  /// one.
  private final class ServerClock: Sendable {
    /// The server's time less this machine's, in milliseconds. Relaxed: the number alone is used,
    /// and a request that sees an older one is refused, and sent again.
    private let offset = Atomic<Int64>(0)

    /// The time of day, in milliseconds since the beginning of 1970.
    var milliseconds: Int64 {
      Int64(SystemClock.wallMilliseconds()) + offset.load(ordering: .relaxed)
    }

    /// Takes over a time that the server has named now.
    func adopt(_ milliseconds: Int64) {
      offset.store(milliseconds - Int64(SystemClock.wallMilliseconds()), ordering: .relaxed)
    }
  }
#endif
