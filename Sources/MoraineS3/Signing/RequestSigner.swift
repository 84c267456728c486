#if S3
  import Crypto

  /// The words in which the signatures of two servers differ.
  struct SigningScheme: Hashable, Sendable {
    let algorithm: String
    /// The text before the secret, in the first key.
    let keyPrefix: String
    let service: String
    /// The text that ends the scope of a signature.
    let terminator: String
    /// The beginning of the names of the server's own headers.
    let headerPrefix: String

    /// Signature version 4 of Amazon Web Services, which most servers have.
    static let amazon = SigningScheme(
      algorithm: "AWS4-HMAC-SHA256", keyPrefix: "AWS4", service: "s3", terminator: "aws4_request",
      headerPrefix: "x-amz-")
    /// Signature version 4 of Google Cloud Storage, which refuses requests that mix `x-amz-` with
    /// `x-goog-`.
    static let google = SigningScheme(
      algorithm: "GOOG4-HMAC-SHA256", keyPrefix: "GOOG4", service: "storage",
      terminator: "goog4_request", headerPrefix: "x-goog-")
  }

  /// The parts of a request that a signature covers.
  struct SignableRequest: Sendable {
    /// A name with its value.
    typealias Field = (name: String, value: String)

    let method: String
    /// The path, encoded; it begins with `/`.
    let path: String
    /// The names and values of the query, not encoded.
    let query: [Field]
    /// The headers that are signed, in lower case; `host` is one of them.
    let headers: [Field]
    /// The SHA-256 of the body, in hexadecimal digits.
    let bodyDigest: String

    /// The query in the order and in the form that the signature covers.
    var encodedQuery: String {
      query.map { (PercentEncoding.text($0.name), PercentEncoding.text($0.value)) }
        .sorted { ($0.0, $0.1) < ($1.0, $1.1) }
        .map { "\($0.0)=\($0.1)" }.joined(separator: "&")
    }
  }

  /// Signs requests by signature version 4, with a signed body.
  ///
  /// A pure value: the same arguments give the same signature.
  struct RequestSigner: Sendable {
    let scheme: SigningScheme
    let region: String

    /// Returns all headers that are sent because of the signature: those of the request, the time,
    /// the digest of the body, the session token if the keys have one, and the signature.
    func headers(
      for request: SignableRequest, _ keys: S3Keys, at time: SigningTime
    ) -> [SignableRequest.Field] {
      var headers = request.headers
      headers.append((scheme.headerPrefix + "content-sha256", request.bodyDigest))
      headers.append((scheme.headerPrefix + "date", time.stamp))
      if let token = keys.sessionToken {
        headers.append((scheme.headerPrefix + "security-token", token))
      }
      headers.sort { $0.name < $1.name }
      let names = headers.map(\.name).joined(separator: ";")
      let scope = "\(time.day)/\(region)/\(scheme.service)/\(scheme.terminator)"
      let canonical = Self.canonicalRequest(request, headers, names)
      let text = [
        scheme.algorithm, time.stamp, scope, Self.digits(SHA256.hash(data: Array(canonical.utf8))),
      ].joined(separator: "\n")
      let signature = Self.digits(Self.code(text, key(keys, time)))
      headers.append(
        (
          "authorization",
          "\(scheme.algorithm) Credential=\(keys.accessKeyID)/\(scope),SignedHeaders=\(names),"
            + "Signature=\(signature)"
        ))
      return headers
    }

    private static func canonicalRequest(
      _ request: SignableRequest, _ headers: [SignableRequest.Field], _ names: String
    ) -> String {
      let lines = headers.map { "\($0.name):\($0.value)\n" }.joined()
      return [
        request.method, request.path, request.encodedQuery, lines, names, request.bodyDigest,
      ].joined(separator: "\n")
    }

    /// The key of a day, a region and a service.
    private func key(_ keys: S3Keys, _ time: SigningTime) -> SymmetricKey {
      var key = SymmetricKey(data: Array((scheme.keyPrefix + keys.secretAccessKey).utf8))
      for part in [time.day, region, scheme.service, scheme.terminator] {
        key = SymmetricKey(data: Array(Self.code(part, key)))
      }
      return key
    }

    private static func code(_ text: String, _ key: SymmetricKey) -> HMAC<SHA256>.MAC {
      HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key)
    }

    /// Hexadecimal digits of bytes, in lower case.
    static func digits(_ bytes: some Sequence<UInt8>) -> String {
      let digits = Array("0123456789abcdef".utf8)
      var text: [UInt8] = []
      for byte in bytes { text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]] }
      return String(decoding: text, as: UTF8.self)
    }
  }

  /// The encoding of texts in paths and queries: each byte beside letters, digits and `-._~` as `%`
  /// and two digits.
  enum PercentEncoding {
    /// Encodes a text; `/` as well.
    static func text(_ text: String) -> String { encoded(text, besides: "") }

    /// Encodes the parts of a path.
    static func path(_ path: String) -> String { encoded(path, besides: "/") }

    private static func encoded(_ text: String, besides more: String) -> String {
      let plain = Set("-._~".utf8).union(more.utf8)
      let digits = Array("0123456789ABCDEF".utf8)
      var result: [UInt8] = []
      for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          result.append(byte)
        case let byte where plain.contains(byte): result.append(byte)
        default: result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
        }
      }
      return String(decoding: result, as: UTF8.self)
    }

    /// Decodes a text; nil when an escape is incomplete.
    static func decoded(_ text: some StringProtocol) -> String? {
      var bytes: [UInt8] = []
      var rest = Array(text.utf8)[...]
      while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
          bytes.append(byte)
          continue
        }
        guard let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16),
          rest.count >= 2
        else { return nil }
        bytes.append(value)
        rest = rest.dropFirst(2)
      }
      return String(validating: bytes, as: UTF8.self)
    }
  }
#endif
