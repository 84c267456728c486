#if Metrics
  public import Metrics
  public import MoraineEngine

  /// Metrics of a store's events and statistics, for swift-metrics.
  ///
  /// Names begin with `moraine_` and end with the unit, or with `_total` for counters. The
  /// dimension `store` is the store's name. Events update the counters and timers. The gauges are
  /// as recent as the last statistics that were recorded.
  ///
  /// Safe to use from any thread.
  public final class StoreMetrics: Sendable {
    let sealedSegments: Counter
    let sealedBytes: Counter
    let compactions: Counter
    let compactionReadBytes: Counter
    let compactionWrittenBytes: Counter
    let compactionFailures: Counter
    let checkpoints: Counter
    let checkpointBytes: Counter
    let checkpointFailures: Counter
    let manifestFailures: Counter
    let outOfSpace: Counter
    let poisonings: Counter
    let openingTime: Timer
    let compactionTime: Timer
    let checkpointTime: Timer
    let gauges: StoreGauges

    /// Creates the metrics of a store.
    ///
    /// - Parameters:
    ///   - storeName: the name that distinguishes the stores of a program. Keep it short, and the
    ///     same in each run.
    ///   - factory: creates the metrics; by default the factory of the process.
    public init(storeName: String, factory: any MetricsFactory = MetricsSystem.factory) {
      let maker = MetricMaker(dimensions: [("store", storeName)], factory: factory)
      sealedSegments = maker.counter("sealed_segments_total")
      sealedBytes = maker.counter("sealed_bytes_total")
      compactions = maker.counter("compactions_total")
      compactionReadBytes = maker.counter("compaction_read_bytes_total")
      compactionWrittenBytes = maker.counter("compaction_written_bytes_total")
      compactionFailures = maker.counter("compaction_failures_total")
      checkpoints = maker.counter("checkpoints_total")
      checkpointBytes = maker.counter("checkpoint_written_bytes_total")
      checkpointFailures = maker.counter("checkpoint_failures_total")
      manifestFailures = maker.counter("manifest_failures_total")
      outOfSpace = maker.counter("out_of_space_total")
      poisonings = maker.counter("poisonings_total")
      openingTime = maker.timer("opening_duration_seconds")
      compactionTime = maker.timer("compaction_duration_seconds")
      checkpointTime = maker.timer("checkpoint_duration_seconds")
      gauges = StoreGauges(maker)
    }

    /// Counts an event. `Configuration.record(in:)` calls this for each event; call it only from a
    /// handler of your own.
    public func record(_ event: StoreEvent) {
      switch event {
      case .opened(let report):
        openingTime.recordNanoseconds(report.elapsedNanoseconds)
      case .segmentSealed(_, let lengthBytes):
        sealedSegments.increment()
        sealedBytes.increment(by: lengthBytes)
      case .compacted(let report, let elapsedNanoseconds):
        compactions.increment()
        compactionReadBytes.increment(by: report.inputBytes)
        compactionWrittenBytes.increment(by: report.outputBytes)
        compactionTime.recordNanoseconds(elapsedNanoseconds)
      case .compactionFailed: compactionFailures.increment()
      case .checkpointWritten(let lengthBytes, let elapsedNanoseconds):
        checkpoints.increment()
        checkpointBytes.increment(by: lengthBytes)
        checkpointTime.recordNanoseconds(elapsedNanoseconds)
      case .checkpointFailed: checkpointFailures.increment()
      case .manifestFailed: manifestFailures.increment()
      case .outOfSpace: outOfSpace.increment()
      case .poisoned: poisonings.increment()
      case .keyspaceOrdering, .keyspaceOrdered, .indexBuilding, .indexBuilt, .indexBuildingFailed,
        .entriesExpired, .reapingFailed, .clockJumped, .suspended, .closed:
        break
      }
    }

    /// Sets the gauges to the statistics of a store.
    ///
    /// Pass the statistics of one store only, in their order: bytes and syncs are counted as the
    /// difference between two calls.
    public func record(_ statistics: Store.Statistics) {
      gauges.record(statistics)
    }

    /// Records the store's statistics now, and again after each interval until the task is
    /// cancelled.
    ///
    /// - Parameters:
    ///   - store: the store. Each time costs one call of ``/MoraineEngine/Store/statistics()``: one
    ///     hop, O(segments). While that call throws, nothing is recorded.
    ///   - interval: the time between two recordings.
    public func run(_ store: Store, every interval: Duration = .seconds(10)) async {
      while !Task.isCancelled {
        // A suspended store has no figures; a shared store may have none for some time.
        do throws(StoreError) { record(try await store.statistics()) } catch {
          if error.code == .closed { return }
        }
        do { try await Task.sleep(for: interval) } catch { return }
      }
    }
  }

  /// Metrics of a store's events.
  extension Store.Configuration {
    /// Counts the events of the store. An existing handler in
    /// ``/MoraineEngine/Store/Configuration/onEvent`` is still called.
    public mutating func record(in metrics: StoreMetrics) {
      addEventHandler { metrics.record($0) }
    }
  }
#endif
