#if S3
  public import MoraineArchive

  /// A store of objects in a bucket of Amazon S3, or of another server that speaks S3.
  ///
  /// ```swift
  /// let objects = try S3ObjectStore(url: "s3://backups/users?region=eu-central-1")
  /// let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
  /// ```
  ///
  /// **What the server must do.** It must create an object only if its name is free
  /// (`If-None-Match: *`) also when requests race, and a read must find what was written before it.
  /// Attaching an archive checks both, and refuses other servers. Each answer that confirms or
  /// returns an object must have an `ETag`: the page of a proxy has none.
  ///
  /// **Requests.** One request for each call, except for ``remove(_:)`` and for long lists. A
  /// request is repeated only when the server has refused it unseen: once with newer keys, and once
  /// with the server's time when this machine's clock is wrong. An archive repeats the others.
  ///
  /// **Long bodies** are read twice, for their digest and to be sent; only about a megabyte of them
  /// is in memory.
  ///
  /// Needs the trait `S3` of this package.
  public final class S3ObjectStore: ObjectStore {
    let client: BucketClient

    /// The bucket, and the beginning of its keys.
    public var location: S3Location { client.location }

    /// Uses a bucket. No request is sent.
    ///
    /// - Parameters:
    ///   - location: the bucket, and the beginning of its keys.
    ///   - credentials: the source of the keys.
    ///   - requestTimeout: how long one request may take until its answer begins; longer bodies
    ///     have more time, a second for each 64 KiB. A request also waits no longer than that for
    ///     other uploads, where the server limits their number.
    public init(
      _ location: S3Location, credentials: S3Credentials = .standard,
      requestTimeout: Duration = .seconds(30)
    ) {
      client = BucketClient(location, credentials, timeout: requestTimeout)
    }

    init(_ client: BucketClient) { self.client = client }

    /// Uses the bucket with an address, `s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION`:
    /// see ``S3Location``. No request is sent.
    ///
    /// - Throws: `.invalidName`, with the part of the address that is not as it must be.
    public convenience init(
      url: String, credentials: S3Credentials = .standard, requestTimeout: Duration = .seconds(30)
    ) throws(ArchiveError) {
      self.init(try S3Location(url), credentials: credentials, requestTimeout: requestTimeout)
    }

    public func create(
      _ name: ObjectName, _ body: ObjectBody
    ) async throws(ObjectStoreError) -> ObjectCreation {
      let condition = location.provider.condition
      let request = try await upload(name, body, [(condition.name, condition.value)])
      let answer = try await client.send(request)
      if answer.status == 412 { return .exists }
      try check(answer, to: request)
      return .created
    }

    public func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
      let request = try await upload(name, body, [])
      let answer = try await client.send(request)
      try check(answer, to: request)
    }

    public func get(
      _ name: ObjectName, _ range: Range<Int>?
    ) async throws(ObjectStoreError) -> [UInt8]? {
      precondition(range.map { $0.lowerBound >= 0 } ?? true, "a range begins before an object")
      var request = BucketRequest(verb: .get, object: name, key: location.key(name))
      request.range = range
      if let range { request.headers = [("range", Self.header(of: range))] }
      let answer = try await client.send(request)
      if answer.isSuccess { try checkETag(of: answer, to: request) }
      switch answer.status {
      case 206: return try part(range, of: answer, request)
      case 200..<300:
        // A server may ignore a range.
        guard let range else { return answer.body }
        return Array(answer.body[range.clamped(to: 0..<answer.body.count)])
      case 404 where answer.code == "NoSuchKey": return nil
      case 416 where range != nil: return []
      default: throw refusal(of: request, answer)
      }
    }

    public func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
      for name in names {
        let request = BucketRequest(verb: .delete, object: name, key: location.key(name))
        let answer = try await client.send(request)
        let isMissing = answer.status == 404 && answer.code == "NoSuchKey"
        guard answer.isSuccess || isMissing else { throw refusal(of: request, answer) }
      }
    }

    public func list(
      under prefix: ObjectName, after last: ObjectName?, limit: Int
    ) async throws(ObjectStoreError) -> [ObjectName] {
      precondition(limit >= 0, "the limit of a list is negative")
      var names: [ObjectName] = []
      var token: String?
      while names.count < limit {
        let page = try await page(prefix, after: last, token, min(limit - names.count, 1000))
        names += page.keys.compactMap { location.name(ofKey: $0) }
        token = page.nextToken
        if token == nil { break }
      }
      return names
    }
  }

  extension S3ObjectStore {
    private func upload(
      _ name: ObjectName, _ body: ObjectBody, _ headers: [SignableRequest.Field]
    ) async throws(ObjectStoreError) -> BucketRequest {
      let prepared: PreparedBody
      do throws(ObjectStoreError) { prepared = try await client.prepare(body) } catch {
        throw ObjectStoreError(
          error.code, error.message, object: name, mayHaveHadEffect: error.mayHaveHadEffect)
      }
      return BucketRequest(
        verb: .put, object: name, key: location.key(name), headers: headers, body: prepared)
    }

    /// Checks that an answer says that an object was stored.
    private func check(
      _ answer: BucketAnswer, to request: BucketRequest
    ) throws(ObjectStoreError) {
      guard answer.isSuccess else { throw refusal(of: request, answer) }
      try checkETag(of: answer, to: request)
    }

    /// Checks that a store of objects has given a successful answer: it names the entity that it
    /// has stored or returns, and the page of a proxy does not.
    private func checkETag(
      of answer: BucketAnswer, to request: BucketRequest
    ) throws(ObjectStoreError) {
      guard answer.headers["etag"] != nil else {
        throw ObjectStoreError(
          .unavailable,
          "\(location.endpoint): the answer names no ETag, so no store of objects has given it; "
            + "look for a proxy", object: request.object, mayHaveHadEffect: request.changes)
      }
    }

    private func refusal(of request: BucketRequest, _ answer: BucketAnswer) -> ObjectStoreError {
      BucketRefusal(location: location, request: request, answer: answer).error
    }

    /// The header for a range. Of an empty range one byte is requested, to learn whether the object
    /// exists.
    private static func header(of range: Range<Int>) -> String {
      // Servers refuse numbers that are longer than theirs.
      if range.upperBound > 1 << 50 { return "bytes=\(range.lowerBound)-" }
      return "bytes=\(range.lowerBound)-\(max(range.lowerBound, range.upperBound - 1))"
    }

    /// Checks that a part of an object is the part that was requested.
    private func part(
      _ range: Range<Int>?, of answer: BucketAnswer, _ request: BucketRequest
    ) throws(ObjectStoreError) -> [UInt8] {
      // `bytes 7-9/10`
      let fields = (answer.headers["content-range"] ?? "").split(whereSeparator: {
        " -/".contains($0)
      })
      guard let range, fields.count == 4, fields[0] == "bytes", let first = Int(fields[1]),
        let last = Int(fields[2]), first == range.lowerBound, last >= first,
        // `last` may be the largest number that there is.
        last - first == answer.body.count - 1, answer.body.count <= max(1, range.count),
        isWhole(last, of: range, total: fields[3])
      else {
        // A cache between here and the server may do that, and the next answer be right.
        throw ObjectStoreError(
          .unavailable, "\(location.endpoint): the answer is another part of the object",
          object: request.object, mayHaveHadEffect: false)
      }
      return range.isEmpty ? [] : answer.body
    }

    /// Whether a part reaches to the end of its range, or of the object. `*` stands for a length
    /// that the server does not know.
    private func isWhole(_ last: Int, of range: Range<Int>, total: Substring) -> Bool {
      if total == "*" { return true }
      guard let total = Int(total), total > 0 else { return false }
      return last == min(max(range.upperBound - 1, range.lowerBound), total - 1)
    }

    private func page(
      _ prefix: ObjectName, after last: ObjectName?, _ token: String?, _ limit: Int
    ) async throws(ObjectStoreError) -> ListPage {
      var query: [SignableRequest.Field] = [("list-type", "2"), ("max-keys", "\(limit)")]
      let start = location.key(prefix)
      if !start.isEmpty { query.append(("prefix", start + "/")) }
      if let token {
        query.append(("continuation-token", token))
      } else if let last {
        query.append(("start-after", location.key(last)))
      }
      let request = BucketRequest(
        verb: .get, object: nil, key: "", query: query, answerLimit: 16 << 20)
      let answer = try await client.send(request)
      guard answer.isSuccess else { throw refusal(of: request, answer) }
      guard let page = ListPage(answer.body) else {
        throw ObjectStoreError(
          .unavailable, "\(location.endpoint): the list of the bucket's objects cannot be read",
          mayHaveHadEffect: false)
      }
      return page
    }
  }
#endif
