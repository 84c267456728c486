#if S3
  /// The keys with which requests to a bucket are signed.
  public struct S3Keys: Hashable, Sendable, CustomStringConvertible {
    /// The public part.
    public var accessKeyID: String
    /// The secret part. It never leaves the process.
    public var secretAccessKey: String
    /// The token of temporary keys; nil for permanent keys.
    public var sessionToken: String?
    /// When temporary keys expire: milliseconds since the beginning of 1970, UTC. Nil when the keys
    /// do not expire, or when the time is unknown.
    public var expiryMilliseconds: UInt64?

    /// Creates keys.
    ///
    /// - Parameters:
    ///   - accessKeyID: the public part.
    ///   - secretAccessKey: the secret part.
    ///   - sessionToken: the token of temporary keys.
    ///   - expiryMilliseconds: when the keys expire: milliseconds since the beginning of 1970, UTC.
    public init(
      accessKeyID: String, secretAccessKey: String, sessionToken: String? = nil,
      expiryMilliseconds: UInt64? = nil
    ) {
      (self.accessKeyID, self.secretAccessKey) = (accessKeyID, secretAccessKey)
      (self.sessionToken, self.expiryMilliseconds) = (sessionToken, expiryMilliseconds)
    }

    /// The public part alone, so that no log contains the secret.
    public var description: String { "S3Keys(\(accessKeyID))" }
  }
#endif
