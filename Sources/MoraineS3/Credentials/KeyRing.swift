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
    /// The time before which keys that are due are used, and the source is not asked again.
    private var nextQuestion: UInt64 = 0
    private let gate = AsyncGate()

    /// How long before their expiry keys are replaced.
    static let reserveMilliseconds: UInt64 = 5 * 60 * 1000
    private static let pauseMilliseconds: UInt64 = 10 * 1000

    /// - Parameter now: the time of day, in milliseconds since the beginning of 1970; the server's,
    ///   where it is known.
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
        // These can be due already: by a wrong clock, or because their source keeps them so long.
        pause(found)
        keys = found
        return found
      } catch {
        guard let keys, keys != rejected, !hasExpired(keys) else { throw error }
        pause(keys)
        return keys
      }
    }

    private func isDue(_ keys: S3Keys) -> Bool {
      guard let expiry = keys.expiryMilliseconds else { return false }
      return now() + Self.reserveMilliseconds >= expiry && !isPaused
    }

    private var isPaused: Bool {
      let time = now()
      // A clock that was set back does not make the pause longer.
      return time < nextQuestion && nextQuestion - time <= Self.pauseMilliseconds
    }

    /// Lets requests use keys for a while, also when they are due: until they expire, or, where
    /// they have expired by this clock, until the server refuses them.
    private func pause(_ keys: S3Keys) {
      let end = now() + Self.pauseMilliseconds
      nextQuestion = hasExpired(keys) ? end : min(end, keys.expiryMilliseconds ?? end)
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
