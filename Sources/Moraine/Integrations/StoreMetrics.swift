#if Metrics
  public import Metrics
  public import MoraineEngine

  /// A store's events and figures in swift-metrics.
  ///
  /// Names begin with `moraine_` and end with the unit, counters with `_total`; the dimension
  /// `store` has the store's name. Counters and timers follow the events, gauges are as fresh as
  /// the last call with statistics.
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

    /// - Parameters:
    ///   - storeName: tells the stores of a program apart; keep it short, and the same in each run.
    ///   - factory: who makes the metrics; the process's own unless another one is named.
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

    /// Counts an event: what `Configuration.record(in:)` does with each, for a handler of one's
    /// own.
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
      case .suspended, .closed: break
      }
    }

    /// Sets the gauges to a store's figures at one moment.
    ///
    /// Of one store and in their order: bytes and syncs are counted from one call to the next.
    public func record(_ statistics: Statistics) {
      gauges.record(statistics)
    }

    /// Records the store's figures now, and again and again until the task is cancelled.
    ///
    /// - Parameters:
    ///   - store: asked for ``/MoraineEngine/Store/statistics``: one hop, O(segments).
    ///   - interval: how long to wait in between.
    public func run(_ store: Store, every interval: Duration = .seconds(10)) async {
      while !Task.isCancelled {
        record(await store.statistics)
        do { try await Task.sleep(for: interval) } catch { return }
      }
    }
  }

  /// Where a store's events are counted.
  extension Configuration {
    /// Has what happens to the store counted, beside what ``/MoraineEngine/Configuration/onEvent``
    /// does already.
    public mutating func record(in metrics: StoreMetrics) {
      addEventHandler { metrics.record($0) }
    }
  }
#endif
