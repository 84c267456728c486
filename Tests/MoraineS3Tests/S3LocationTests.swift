#if S3
  import MoraineArchive
  import Testing

  @testable import MoraineS3

  /// The addresses of buckets.
  @Suite struct S3LocationTests {
    private func location(
      _ url: String, _ variables: [String: String] = [:]
    ) throws(ArchiveError) -> S3Location {
      try S3Location(url) { variables[$0] }
    }

    @Test func addressHasItsParts() throws {
      let plain = try location("s3://backups")
      #expect(plain.bucket == "backups" && plain.prefix == "" && plain.region == "us-east-1")
      #expect(plain.endpoint == "https://s3.us-east-1.amazonaws.com" && plain.style == .host)
      #expect(plain.scheme == "https" && plain.host == "backups.s3.us-east-1.amazonaws.com")
      #expect(plain.path == "" && plain.provider == .amazon)

      let whole = try location(
        "s3://my.bucket/some/Place%20x/?endpoint=http%3A%2F%2F127.0.0.1:9000/&region=garage")
      #expect(whole.bucket == "my.bucket" && whole.prefix == "some/Place x")
      #expect(whole.endpoint == "http://127.0.0.1:9000" && whole.region == "garage")
      #expect(whole.style == .path && whole.host == "127.0.0.1:9000" && whole.path == "/my.bucket")
      #expect(whole.scheme == "http" && whole.description == "s3://my.bucket/some/Place x")

      #expect(try location("s3://abc?endpoint=http://[::1]:9000").host == "[::1]:9000")
      #expect(try location("s3://a.b.c").style == .path)
      #expect(try location("s3://abc?endpoint=https://h&style=host").host == "abc.h")
      #expect(try location("s3://abc?style=path").path == "/abc")
    }

    @Test func regionComesFromTheAddressBeforeTheEnvironment() throws {
      let variables = ["AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"]
      #expect(try location("s3://abc?region=x", variables).region == "x")
      #expect(try location("s3://abc", variables).region == "eu-west-1")
      #expect(try location("s3://abc", ["AWS_DEFAULT_REGION": "eu-west-2"]).region == "eu-west-2")
    }

    @Test func hostsHaveTheirProviders() throws {
      for (host, provider) in [
        ("fly.storage.tigris.dev", S3Provider.tigris), ("t3.storage.dev", .tigris),
        ("storage.googleapis.com", .googleCloud), ("x.r2.cloudflarestorage.com", .cloudflareR2),
        ("notstorage.dev.example", .amazon), ("s3.eu-west-1.amazonaws.com", .amazon),
      ] { #expect(try location("s3://abc?endpoint=https://\(host):443").provider == provider) }
      #expect(try location("s3://abc?endpoint=https://h&provider=r2").provider == .cloudflareR2)
    }

    @Test func wrongAddressIsRefusedWithItsPart() {
      for (url, part) in [
        ("http://abc", "s3://BUCKET"), ("s3:/abc", "s3://BUCKET"), ("s3://", "name of a bucket"),
        ("s3://ab", "'ab'"), ("s3://Upper", "'Upper'"), ("s3://abc//x", "'/x'"),
        ("s3://abc/../x", "'../x'"), ("s3://abc/%zz", "escape"), ("s3://abc?endpoint=h", "'h'"),
        ("s3://abc?endpoint=https://h/path", "'https://h/path'"),
        ("s3://abc?endpoint=https://u@h", "endpoint"),
        ("s3://abc?endpoint=https://:80", "endpoint"),
        ("s3://abc?endpoint=https://h:x", "endpoint"), ("s3://abc?endpoint=https://h:", "endpoint"),
        ("s3://abc?endpoint=https://h:70000", "endpoint"),
        ("s3://abc?endpoint=ftp://h", "endpoint"),
        ("s3://abc?style=none", "'style=none'"),
        ("s3://abc?provider=none", "'provider=none'"), ("s3://abc?acl=x", "'acl'"),
        ("s3://abc?region=", "'region='"), ("s3://abc?region=a&region=b", "'region=b'"),
        ("s3://abc?region=a%2Fb", "'a/b'"), ("s3://abc?endpoint", "'endpoint'"),
      ] {
        let error = #expect(throws: ArchiveError.self, "\(url)") { try location(url) }
        #expect(error?.code == .invalidName)
        #expect(error?.message.contains(part) == true, "\(url): \(error?.message ?? "")")
      }
    }

    @Test func keysOfOtherProgramsAreNoNames() throws {
      let some = try location("s3://abc/a/B")
      let log = objectName("log/1")
      #expect(some.key(.root) == "a/B" && some.key(log) == "a/B/log/1")
      #expect(some.name(ofKey: "a/B/log/1") == log)
      for key in ["a/B", "a/B/", "a/Bx/log", "a/B/Log", "a/B/log/", "log/1", ""] {
        #expect(some.name(ofKey: key) == nil, "\(key)")
      }
      let all = try location("s3://abc")
      #expect(all.name(ofKey: "log/1") == log && all.key(.root) == "")
      #expect(all.name(ofKey: "") == nil && all.name(ofKey: "_x") == nil)
    }
  }
#endif
