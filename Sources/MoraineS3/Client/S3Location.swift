#if S3
  public import MoraineArchive
  import MoraineStorage

  /// A bucket, or the objects of a bucket whose keys begin alike.
  ///
  /// The address as text: `s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION`. Each part that
  /// follows the bucket may be missing.
  public struct S3Location: Hashable, Sendable, CustomStringConvertible {
    /// Where a request has the name of the bucket.
    public struct Style: Hashable, Sendable {
      private let name: String
      /// In the path: `https://HOST/BUCKET/KEY`.
      public static let path = Style(name: "path")
      /// In the name of the host: `https://BUCKET.HOST/KEY`.
      public static let host = Style(name: "host")
    }

    /// The name of the bucket.
    public let bucket: String
    /// The beginning of all keys, without `/` at either end; empty for the whole bucket.
    public let prefix: String
    /// The server: `https://HOST` or `http://HOST:PORT`.
    public let endpoint: String
    /// The region of the bucket, which is part of each signature.
    public let region: String
    /// Where a request has the name of the bucket.
    public let style: Style
    /// The ways in which the server differs from Amazon S3.
    public let provider: S3Provider

    /// Creates a location.
    ///
    /// - Parameters:
    ///   - bucket: the name of the bucket.
    ///   - prefix: the beginning of all keys; empty for the whole bucket.
    ///   - endpoint: the server, `https://HOST[:PORT]`; nil for Amazon S3 in the region.
    ///   - region: the region of the bucket; nil for `us-east-1`.
    ///   - style: nil for the path when there is an endpoint or the name of the bucket has a point,
    ///     and for the host otherwise.
    ///   - provider: nil for the one that the host of the endpoint belongs to.
    /// - Throws: `.invalidName`, with the part that is not as it must be.
    public init(
      bucket: String, prefix: String = "", endpoint: String? = nil, region: String? = nil,
      style: Style? = nil, provider: S3Provider? = nil
    ) throws(ArchiveError) {
      let isName = bucket.utf8.allSatisfy { byte in
        UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte
          || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
          || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
      }
      guard isName, (3...63).contains(bucket.utf8.count) else {
        throw Self.invalid(
          "'\(bucket)' cannot be the name of a bucket; use 3 to 63 of a-z, 0-9, - .")
      }
      let parts = prefix.split(separator: "/", omittingEmptySubsequences: false)
      guard prefix.isEmpty || parts.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }),
        prefix.utf8.count <= 400, !prefix.utf8.contains(where: { $0 < 32 || $0 == 127 })
      else {
        throw Self.invalid("'\(prefix)' cannot be the beginning of keys; use parts separated by /")
      }
      let region = region ?? "us-east-1"
      guard !region.isEmpty, region.utf8.allSatisfy({ $0 > 32 && $0 < 127 && $0 != 47 }) else {
        throw Self.invalid("'\(region)' cannot be the name of a region")
      }
      let server = endpoint ?? "https://s3.\(region).amazonaws.com"
      let host = try Self.host(of: server)
      (self.bucket, self.prefix, self.region) = (bucket, prefix, region)
      self.endpoint = server.hasSuffix("/") ? String(server.dropLast()) : server
      self.style = style ?? (endpoint == nil && !bucket.contains(".") ? .host : .path)
      self.provider = provider ?? .provider(ofHost: host)
    }

    /// The scheme of the endpoint: `http` or `https`.
    var scheme: String { endpoint.hasPrefix("http:") ? "http" : "https" }

    /// The host, with its port, to which requests go.
    var host: String {
      let server = String(endpoint.dropFirst(scheme.count + 3))
      return style == .host ? "\(bucket).\(server)" : server
    }

    /// The encoded path of the bucket, without `/` at its end.
    var path: String { style == .host ? "" : "/" + bucket }

    /// The key of an object.
    func key(_ name: ObjectName) -> String {
      prefix.isEmpty ? name.text : name == .root ? prefix : prefix + "/" + name.text
    }

    /// The name of the object with a key; nil for a key that no object of this location can have.
    func name(ofKey key: String) -> ObjectName? {
      let start = prefix.isEmpty ? "" : prefix + "/"
      guard key.hasPrefix(start), key != start else { return nil }
      do throws(ArchiveError) { return try ObjectName(String(key.dropFirst(start.count))) } catch {
        return nil
      }
    }

    /// The location without the parameters of the address.
    public var description: String { "s3://\(bucket)" + (prefix.isEmpty ? "" : "/\(prefix)") }

    /// - Returns: the host of an endpoint, without its port.
    private static func host(of endpoint: String) throws(ArchiveError) -> String {
      for scheme in ["https://", "http://"] where endpoint.hasPrefix(scheme) {
        var rest = endpoint.dropFirst(scheme.count)
        if rest.hasSuffix("/") { rest = rest.dropLast() }
        let isHost = rest.utf8.allSatisfy { $0 > 32 && $0 < 127 && !"/?#@\\%".utf8.contains($0) }
        // The numbers of an IPv6 address have colons too; they stand in brackets.
        let host = rest.prefix { $0 != (rest.first == "[" ? "]" : ":") }
        let port = rest.dropFirst(host.count + (rest.first == "[" ? 1 : 0))
        let isPort = port.isEmpty || port.first == ":" && UInt16(port.dropFirst()) != nil
        guard isHost, isPort, !host.isEmpty else { break }
        return host.lowercased()
      }
      throw invalid("'\(endpoint)' cannot be an endpoint; use https://HOST or http://HOST:PORT")
    }

    private static func invalid(_ message: String) -> ArchiveError {
      ArchiveError(.invalidName, message)
    }
  }

  extension S3Location {
    /// Reads an address: `s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION`.
    ///
    /// More parameters: `style=path` or `style=host`; `provider=amazon`, `tigris`, `google` or
    /// `r2`. Without a region the environment's `AWS_REGION` or `AWS_DEFAULT_REGION` counts.
    ///
    /// - Throws: `.invalidName`, with the part that is not as it must be.
    public init(_ url: String) throws(ArchiveError) {
      try self.init(url, CurrentProcess.environment)
    }

    init(_ url: String, _ variable: (String) -> String?) throws(ArchiveError) {
      guard url.hasPrefix("s3://") else {
        throw Self.invalid("'\(url)' is not the address of a bucket: s3://BUCKET/PREFIX")
      }
      let halves = url.dropFirst("s3://".count).split(
        separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
      let place = halves[0].split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
      guard let prefix = PercentEncoding.decoded(place.count > 1 ? place[1] : "") else {
        throw Self.invalid("'\(url)' has an incomplete escape")
      }
      var parameters = try Self.parameters(halves.count > 1 ? halves[1] : "", of: url)
      let endpoint = parameters.removeValue(forKey: "endpoint")
      let region =
        parameters.removeValue(forKey: "region") ?? variable("AWS_REGION")
        ?? variable("AWS_DEFAULT_REGION")
      let style = try parameters.removeValue(forKey: "style").map { name throws(ArchiveError) in
        switch name {
        case "path": Style.path
        case "host": Style.host
        default: throw Self.invalid("'style=\(name)' in an address: use style=path or style=host")
        }
      }
      let provider = try parameters.removeValue(forKey: "provider").map {
        name throws(ArchiveError) in
        guard let known = S3Provider.all.first(where: { $0.description == name }) else {
          throw Self.invalid(
            "'provider=\(name)' in an address: use "
              + S3Provider.all.map(\.description).joined(separator: ", "))
        }
        return known
      }
      if let other = parameters.keys.min() {
        throw Self.invalid(
          "'\(other)' in an address: only endpoint, region, style and provider are known")
      }
      try self.init(
        bucket: String(place[0]),
        prefix: prefix.hasSuffix("/") ? String(prefix.dropLast()) : prefix,
        endpoint: endpoint, region: region, style: style, provider: provider)
    }

    private static func parameters(
      _ query: Substring, of url: String
    ) throws(ArchiveError) -> [String: String] {
      var parameters: [String: String] = [:]
      for field in query.split(separator: "&") {
        let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let value = PercentEncoding.decoded(parts[1]), !value.isEmpty,
          parameters.updateValue(value, forKey: String(parts[0])) == nil
        else { throw invalid("'\(field)' in '\(url)': a parameter has one name and one value") }
      }
      return parameters
    }
  }
#endif
