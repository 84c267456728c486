#if S3
  import MoraineArchive
  import MoraineStorage
  import SystemPackage

  /// A file of profiles with keys, as the tools of Amazon Web Services write it. It may be a link.
  struct CredentialsFile: Sendable {
    let path: FilePath
    let profile: String

    /// The longest file that is read, in bytes.
    private static let lengthLimit = 1 << 20
    private static let lanes = RequestLanes()

    /// - Parameters:
    ///   - variable: reads a variable of the environment.
    ///   - profile: the name of the profile; nil for the one of the environment.
    ///   - path: the path of the file; nil for the one of the environment.
    init(_ variable: (String) -> String?, profile: String? = nil, path: String? = nil) {
      self.profile = profile ?? variable("AWS_PROFILE") ?? "default"
      let named = path ?? variable("AWS_SHARED_CREDENTIALS_FILE")
      self.path = FilePath(named ?? (variable("HOME") ?? "") + "/.aws/credentials")
    }

    /// Returns the keys of the profile.
    ///
    /// - Throws: `.denied` when there is no such file, no such profile, or none with keys.
    func keys() async throws(ObjectStoreError) -> S3Keys {
      let bytes = try await Self.lanes.run { [path] () throws(ObjectStoreError) in
        try Self.read(path)
      }
      guard let bytes else {
        throw refusal("there is no file '\(path)' with keys")
      }
      guard let fields = Self.fields(of: profile, in: String(decoding: bytes, as: UTF8.self)) else {
        throw refusal("the file '\(path)' has no profile '\(profile)'")
      }
      guard let id = fields["aws_access_key_id"], let secret = fields["aws_secret_access_key"]
      else {
        throw refusal(
          "the profile '\(profile)' in '\(path)' has no aws_access_key_id with "
            + "aws_secret_access_key; for roles and processes use S3Credentials.provider")
      }
      return S3Keys(
        accessKeyID: id, secretAccessKey: secret, sessionToken: fields["aws_session_token"])
    }

    private func refusal(_ message: String) -> ObjectStoreError {
      ObjectStoreError(.denied, message, mayHaveHadEffect: false)
    }

    /// Reads the file; nil when it does not exist. Blocks.
    private static func read(_ path: FilePath) throws(ObjectStoreError) -> [UInt8]? {
      do throws(StorageError) {
        return try SmallFile.read(path, limitBytes: lengthLimit)
      } catch {
        throw ObjectStoreError(
          .denied, "cannot read the keys in '\(path)': \(error.operation): \(error.errno)",
          mayHaveHadEffect: false)
      }
    }

    /// Returns the fields of a profile; nil when the file has no such profile.
    static func fields(of profile: String, in text: String) -> [String: String]? {
      var fields: [String: String]?
      var isInside = false
      for line in text.split(whereSeparator: \.isNewline) {
        let line = trimmed(line)[...]
        if line.hasPrefix("#") || line.hasPrefix(";") { continue }
        if line.hasPrefix("["), line.hasSuffix("]") {
          let name = trimmed(line.dropFirst().dropLast())
          isInside = name == profile || name == "profile \(profile)"
          if isInside { fields = fields ?? [:] }
        } else if isInside, let equals = line.firstIndex(of: "=") {
          let value = trimmed(line[line.index(after: equals)...])
          if !value.isEmpty { fields?[trimmed(line[..<equals]).lowercased()] = value }
        }
      }
      return fields
    }

    private static func trimmed(_ text: Substring) -> String {
      let start = text.drop { $0.isWhitespace }
      guard let last = start.lastIndex(where: { !$0.isWhitespace }) else { return "" }
      return String(start[...last])
    }
  }
#endif
