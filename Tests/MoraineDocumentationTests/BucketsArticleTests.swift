#if S3
  import Moraine
  import MoraineArchive
  import MoraineS3
  import Testing

  /// The code of the article Buckets.
  @Suite struct BucketsArticleTests {
    /// The lines that need a bucket are compiled; the others run.
    @Test func addressOfTheArticleIsOne() throws {
      let objects = try S3ObjectStore(url: "s3://backups/users?region=eu-central-1")
      #expect(objects.location.region == "eu-central-1")
      #expect(try onAServer(Vault()).location.prefix == "users")
    }

    private func inABucket(_ store: Store) async throws -> ArchiveWriter {
      let objects = try S3ObjectStore(url: "s3://backups/users?region=eu-central-1")
      let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
      let writer = try await archive.attach(store)
      return writer
    }

    private struct Vault: Sendable {
      struct Keys {
        let id = ""
        let secret = ""
        let token = ""
        let expiry: UInt64 = 0
      }

      func temporaryKeys() async throws -> Keys { Keys() }
    }

    private func onAServer(_ vault: Vault) throws -> S3ObjectStore {
      let credentials = S3Credentials.provider {
        let keys = try await vault.temporaryKeys()
        return S3Keys(
          accessKeyID: keys.id, secretAccessKey: keys.secret, sessionToken: keys.token,
          expiryMilliseconds: keys.expiry)
      }
      let objects = try S3ObjectStore(url: "s3://backups/users", credentials: credentials)
      return objects
    }
  }
#endif
