#if S3
  import MoraineArchive
  import MoraineStorage

  /// The source of the keys with which requests are signed.
  ///
  /// The source is asked when the first request is sent, five minutes before its keys expire, and
  /// when the server says that they have expired, are unknown, or made a wrong signature. So keys
  /// can be replaced while a program runs.
  public struct S3Credentials: Sendable {
    let provide: @Sendable () async throws -> S3Keys

    /// Asks a function for keys. Use it for instance roles, for web identities and for vaults.
    ///
    /// - Parameter provide: returns the present keys. When it throws, requests fail with
    ///   `.unavailable` until it returns keys, or with the
    ///   ``/MoraineArchive/ObjectStoreError`` that it throws.
    public static func provider(_ provide: @escaping @Sendable () async throws -> S3Keys) -> Self {
      S3Credentials(provide: provide)
    }

    /// Uses the same keys for ever.
    public static func fixed(_ keys: S3Keys) -> Self { S3Credentials { keys } }

    /// Reads `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` from the
    /// environment of the process.
    public static func environment() -> Self {
      S3Credentials {
        guard let keys = environmentKeys(CurrentProcess.environment) else {
          throw ObjectStoreError(
            .denied,
            "no keys for the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            mayHaveHadEffect: false)
        }
        return keys
      }
    }

    /// Reads a profile of a credentials file, each time that keys are needed. Links are followed.
    ///
    /// - Parameters:
    ///   - name: the name of the profile; nil for `AWS_PROFILE`, or `default` without it.
    ///   - path: the path of the file; nil for `AWS_SHARED_CREDENTIALS_FILE`, or
    ///     `~/.aws/credentials` without it.
    public static func profile(_ name: String? = nil, path: String? = nil) -> Self {
      S3Credentials {
        try await CredentialsFile(CurrentProcess.environment, profile: name, path: path).keys()
      }
    }

    /// Uses the environment if it has keys, and the profile otherwise.
    public static let standard = S3Credentials {
      if let keys = environmentKeys(CurrentProcess.environment) { return keys }
      do throws(ObjectStoreError) {
        return try await CredentialsFile(CurrentProcess.environment).keys()
      } catch {
        throw ObjectStoreError(
          error.code,
          "the environment has no AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, and "
            + error.message, mayHaveHadEffect: false)
      }
    }

    static func environmentKeys(_ variable: (String) -> String?) -> S3Keys? {
      guard let id = variable("AWS_ACCESS_KEY_ID"), let secret = variable("AWS_SECRET_ACCESS_KEY"),
        !id.isEmpty, !secret.isEmpty
      else { return nil }
      let token = variable("AWS_SESSION_TOKEN").flatMap { $0.isEmpty ? nil : $0 }
      return S3Keys(accessKeyID: id, secretAccessKey: secret, sessionToken: token)
    }
  }
#endif
