#if S3
  import Foundation
  import MoraineTesting
  import Testing

  @testable import MoraineS3

  /// Signatures, compared with the examples that Amazon Web Services publishes in "Signature
  /// Calculations for the Authorization Header: Transferring Payload in a Single Chunk".
  @Suite struct RequestSignerTests {
    private static let keys = S3Keys(
      accessKeyID: "AKIAIOSFODNN7EXAMPLE",
      secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    private static let emptyDigest =
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    /// 24 May 2013, 00:00:00.
    private static let time = SigningTime(milliseconds: 1_369_353_600_000)

    private func authorization(
      _ method: String, _ path: String, _ query: [SignableRequest.Field] = [],
      _ headers: [SignableRequest.Field] = [], _ digest: String = emptyDigest,
      _ keys: S3Keys = keys,
      _ signer: RequestSigner = RequestSigner(
        scheme: .amazon, region: "us-east-1")
    ) -> String {
      let request = SignableRequest(
        method: method, path: path, query: query,
        headers: [("host", "examplebucket.s3.amazonaws.com")] + headers, bodyDigest: digest)
      let signed = signer.headers(for: request, keys, at: Self.time)
      return signed.first { $0.name == "authorization" }?.value ?? ""
    }

    @Test func publishedExamplesHaveTheirSignatures() {
      let scope =
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"
      #expect(
        authorization("GET", "/test.txt", [], [("range", "bytes=0-9")])
          == "\(scope),SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
          + "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
      #expect(
        authorization(
          "PUT", "/" + PercentEncoding.path("test$file.text"), [],
          [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
          ], "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072")
          == "\(scope),SignedHeaders=date;host;x-amz-content-sha256;x-amz-date;"
          + "x-amz-storage-class,"
          + "Signature=98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")
      #expect(
        authorization("GET", "/", [("lifecycle", "")])
          == "\(scope),SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
          + "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")
      #expect(
        authorization("GET", "/", [("prefix", "J"), ("max-keys", "2")])
          == "\(scope),SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
          + "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
    }

    @Test func eachPartOfARequestIsSigned() {
      let plain = authorization("GET", "/test.txt")
      var other = Self.keys
      other.secretAccessKey += "x"
      let token = S3Keys(
        accessKeyID: Self.keys.accessKeyID, secretAccessKey: Self.keys.secretAccessKey,
        sessionToken: "token")
      let variants = [
        authorization("PUT", "/test.txt"), authorization("GET", "/test.txu"),
        authorization("GET", "/test.txt", [("a", "b")]),
        authorization("GET", "/test.txt", [], [("x-amz-meta", "b")]),
        authorization("GET", "/test.txt", [], [], String(Self.emptyDigest.reversed())),
        authorization("GET", "/test.txt", [], [], Self.emptyDigest, other),
        authorization("GET", "/test.txt", [], [], Self.emptyDigest, token),
        authorization(
          "GET", "/test.txt", [], [], Self.emptyDigest, Self.keys,
          RequestSigner(scheme: .amazon, region: "eu-west-1")),
        authorization(
          "GET", "/test.txt", [], [], Self.emptyDigest, Self.keys,
          RequestSigner(scheme: .google, region: "us-east-1")),
      ]
      #expect(Set(variants + [plain]).count == variants.count + 1)
      #expect(variants[6].contains("x-amz-date;x-amz-security-token,"))
      #expect(variants[8].contains("/us-east-1/storage/goog4_request,SignedHeaders=host;x-goog-"))
    }

    @Test func queriesAreSortedAfterTheirEncoding() {
      let request = SignableRequest(
        method: "GET", path: "/", query: [("b", "/ü"), ("a-b", "1"), ("a", "2"), ("a+", " ")],
        headers: [], bodyDigest: "")
      #expect(request.encodedQuery == "a=2&a%2B=%20&a-b=1&b=%2F%C3%BC")
      #expect(PercentEncoding.decoded("%2F%C3%BC-x") == "/ü-x")
      for broken in ["%", "%2", "a%zz", "%C3"] { #expect(PercentEncoding.decoded(broken) == nil) }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func momentsAgreeWithTheCalendar(seed: UInt64) {
      var random = SeededGenerator(seed: seed)
      let formatter = DateFormatter()
      formatter.locale = Locale(identifier: "en_US_POSIX")
      formatter.timeZone = TimeZone(secondsFromGMT: 0)
      for _ in 0..<500 {
        // Until the year 2400.
        let seconds = Int64.random(in: 0..<13_569_465_600, using: &random)
        let date = Date(timeIntervalSince1970: TimeInterval(seconds))
        formatter.dateFormat = "yyyyMMdd'T'HHmmss'Z'"
        #expect(
          SigningTime(milliseconds: seconds * 1000 + 999).stamp == formatter.string(from: date))
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        let header = formatter.string(from: date)
        #expect(
          SigningTime.milliseconds(ofHeader: header) == seconds * 1000, "seed \(seed): \(header)")
      }
      for broken in [
        "", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 8:49 GMT",
        "Sun, 99 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
      ] { #expect(SigningTime.milliseconds(ofHeader: broken) == nil, "\(broken)") }
    }
  }
#endif
