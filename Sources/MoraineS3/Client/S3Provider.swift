#if S3
  /// The ways in which a server differs from Amazon S3.
  public struct S3Provider: Hashable, Sendable, CustomStringConvertible {
    /// The name, as an address has it: `provider=tigris`.
    public let description: String
    let scheme: SigningScheme
    /// The header that creates an object only if its name is free.
    let condition: Header
    /// Headers of every request.
    let headers: [Header]
    /// The most uploads at the same time; nil for no limit.
    let uploadLimit: Int?

    struct Header: Hashable, Sendable {
      let name: String
      let value: String
    }

    private init(
      _ name: String, scheme: SigningScheme = .amazon,
      condition: Header = Header(name: "if-none-match", value: "*"), headers: [Header] = [],
      uploadLimit: Int? = nil
    ) {
      (description, self.scheme, self.condition) = (name, scheme, condition)
      (self.headers, self.uploadLimit) = (headers, uploadLimit)
    }

    /// Amazon S3, and servers that do the same: Ceph, for example.
    public static let amazon = S3Provider("amazon")
    /// Tigris. Its header makes each request go to the leading region, so that no region answers
    /// from an older copy.
    public static let tigris = S3Provider(
      "tigris", headers: [Header(name: "x-tigris-consistent", value: "true")])
    /// Google Cloud Storage with interoperability keys: its own signature and its own condition.
    public static let googleCloud = S3Provider(
      "google", scheme: .google,
      condition: Header(name: "x-goog-if-generation-match", value: "0"))
    /// Cloudflare R2: at most three uploads at the same time.
    public static let cloudflareR2 = S3Provider("r2", uploadLimit: 3)

    static let all = [amazon, tigris, googleCloud, cloudflareR2]

    /// The provider that a host belongs to; Amazon for an unknown host.
    static func provider(ofHost host: String) -> S3Provider {
      func isBelow(_ domain: String) -> Bool { host == domain || host.hasSuffix("." + domain) }
      if isBelow("tigris.dev") || isBelow("storage.dev") { return .tigris }
      if isBelow("storage.googleapis.com") { return .googleCloud }
      if isBelow("r2.cloudflarestorage.com") { return .cloudflareR2 }
      return .amazon
    }
  }
#endif
