#if S3
  import MoraineArchive
  import MoraineEngine
  import MoraineStorage

  /// The keys that are in use, and their replacement.
  ///
  /// One request asks the source at a time; the others wait for its answer.
  actor KeyRing {
    private let credentials: S3Credentials
    private let now: @Sendable () -> UInt64
    private var keys: S3Keys?
    /// The source gave no newer keys; it is not asked again before.
    private var nextQuestion: UInt64 = 0
    private let gate = AsyncGate()

    /// How long before their expiry keys are replaced.
    static let reserveMilliseconds: UInt64 = 5 * 60 * 1000
    private static let pauseMilliseconds: UInt64 = 10 * 1000

    /// - Parameter now: the time of day, in milliseconds since the beginning of 1970.
    init(
      _ credentials: S3Credentials,
      now: @escaping @Sendable () -> UInt64 = { SystemClock.wallMilliseconds() }
    ) {
      (self.credentials, self.now) = (credentials, now)
    }

    /// Returns the keys for a request.
    ///
    /// - Parameter rejected: keys that the server did not accept; nil for the first attempt.
    /// - Throws: the error of the source, unless the present keys can still be used.
    func keys(besides rejected: S3Keys? = nil) async throws(ObjectStoreError) -> S3Keys {
      if let keys, keys != rejected, !isDue(keys) { return keys }
      await gate.acquire()
      defer { gate.release() }
      // Another request may have replaced the keys.
      if let keys, keys != rejected, !isDue(keys) { return keys }
      do throws(ObjectStoreError) {
        let found = try await ask()
        if found == keys { nextQuestion = now() + Self.pauseMilliseconds }
        keys = found
        return found
      } catch {
        guard let keys, keys != rejected, !hasExpired(keys) else { throw error }
        nextQuestion = now() + Self.pauseMilliseconds
        return keys
      }
    }

    private func isDue(_ keys: S3Keys) -> Bool {
      guard let expiry = keys.expiryMilliseconds else { return false }
      if now() >= expiry { return true }
      return now() + Self.reserveMilliseconds >= expiry && now() >= nextQuestion
    }

    private func hasExpired(_ keys: S3Keys) -> Bool {
      keys.expiryMilliseconds.map { now() >= $0 } ?? false
    }

    private func ask() async throws(ObjectStoreError) -> S3Keys {
      do {
        return try await credentials.provide()
      } catch let error as ObjectStoreError {
        throw error
      } catch is CancellationError {
        throw ObjectStoreError(.cancelled, "the task was cancelled", mayHaveHadEffect: false)
      } catch {
        throw ObjectStoreError(
          .unavailable, "the source of the keys for the bucket failed: \(error)",
          mayHaveHadEffect: false)
      }
    }
  }
#endif
