#if ServiceLifecycle
  public import MoraineEngine
  public import ServiceLifecycle

  /// A store as a service of a `ServiceGroup`. The service closes the store when the group ends,
  /// and ends the group when the store stops writing.
  ///
  /// A group shuts its services down in the reverse order. List the store before the services that
  /// use it, so that they have stopped writing when the store is closed. The store itself does
  /// compaction, index checkpoints and syncs; a service adds none.
  public struct StoreService: Service {
    /// The store that is closed at the end.
    public let store: Store
    #if Metrics
      private var metrics: StoreMetrics?
      private var interval = Duration.seconds(10)
    #endif

    /// Creates a service for a store.
    ///
    /// - Parameter store: an open store, which the program may use before the service runs.
    public init(_ store: Store) {
      self.store = store
    }

    #if Metrics
      /// Creates a service that records the store's statistics while it runs.
      ///
      /// The store's events are recorded only if `Configuration.record(in:)` was called before the
      /// store was opened.
      ///
      /// - Parameters:
      ///   - store: an open store, which the program may use before the service runs.
      ///   - metrics: the metrics of the store.
      ///   - interval: the time between two recordings.
      public init(
        _ store: Store, recordingIn metrics: StoreMetrics, every interval: Duration = .seconds(10)
      ) {
        self.store = store
        self.metrics = metrics
        self.interval = interval
      }
    #endif

    /// Runs until a graceful shutdown, until the task is cancelled, or until the store is poisoned;
    /// closes the store in all three cases. Returns early when the program closes the store.
    ///
    /// - Throws: the `.poisoned` error as soon as the store stops writing; otherwise the errors of
    ///   ``/MoraineEngine/Store/close()``.
    public func run() async throws {
      await cancelWhenGracefulShutdown { await watch() }
      await recordFigures()
      // Also in a cancelled task: closing ignores cancellation.
      try await store.close()
      // Also when the store was poisoned during the shutdown: closing does not throw that error.
      if let poison = store.poison { throw poison }
    }

    private func watch() async {
      await withTaskGroup(of: Void.self) { group in
        #if Metrics
          if let metrics { group.addTask { await metrics.run(store, every: interval) } }
        #endif
        _ = await store.waitUntilPoisoned()
        group.cancelAll()
      }
    }

    /// Records the last statistics, which include the poison.
    private func recordFigures() async {
      #if Metrics
        // A store that was closed already has no more figures.
        do throws(StoreError) { metrics?.record(try await store.statistics()) } catch {}
      #endif
    }
  }
#endif
