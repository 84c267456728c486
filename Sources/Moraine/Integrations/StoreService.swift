#if ServiceLifecycle
  public import MoraineEngine
  public import ServiceLifecycle

  /// A store as a service of a `ServiceGroup`: it ends in order when the group does, and ends the
  /// group when it cannot go on.
  ///
  /// A group shuts its services down in the opposite order: name the store before those that use
  /// it, so that they have stopped writing when it is closed. Compaction, index checkpoints and
  /// syncs are the store's own doing; a service adds none.
  public struct StoreService: Service {
    /// The store that is closed at the end.
    public let store: Store
    #if Metrics
      private var metrics: StoreMetrics?
      private var interval = Duration.seconds(10)
    #endif

    /// - Parameter store: opened by the program, which may use it at once.
    public init(_ store: Store) {
      self.store = store
    }

    #if Metrics
      /// A service that records the store's figures while it runs.
      ///
      /// Its events are recorded when `Configuration.record(in:)` was called before opening.
      ///
      /// - Parameters:
      ///   - store: opened by the program, which may use it at once.
      ///   - metrics: where the figures go.
      ///   - interval: how long to wait between two of them.
      public init(
        _ store: Store, recordingIn metrics: StoreMetrics, every interval: Duration = .seconds(10)
      ) {
        self.store = store
        self.metrics = metrics
        self.interval = interval
      }
    #endif

    /// Runs until a graceful shutdown, until the task is cancelled, or until the store is poisoned;
    /// then closes the store, in all three cases. Returns early when somebody else closes it.
    ///
    /// - Throws: the `.poisoned` error of a store that stopped writing, at once; otherwise what
    ///   ``/MoraineEngine/Store/close()`` throws.
    public func run() async throws {
      await cancelWhenGracefulShutdown { await watch() }
      await recordFigures()
      // In a task that was cancelled too: closing does not heed that.
      try await store.close()
      // Also when it was poisoned on the way out: closing says nothing of that.
      if let poison = await store.statistics.poison { throw poison }
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

    /// The last ones, with the poison if there is any.
    private func recordFigures() async {
      #if Metrics
        metrics?.record(await store.statistics)
      #endif
    }
  }
#endif
