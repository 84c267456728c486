#if Metrics
  import Metrics
  import MoraineEngine
  import Synchronization

  /// The metrics of a store's statistics.
  final class StoreGauges: Sendable {
    private let keys: Meter
    private let segments: Meter
    private let diskBytes: Meter
    private let liveBytes: Meter
    private let indexBytes: Meter
    private let spaceAmplification: Meter
    private let writeAmplification: Meter
    private let lastSequence: Meter
    private let undurableOperations: Meter
    private let syncUnderWay: Meter
    private let poisoned: Meter
    private let syncs: Counter
    private let appendedBytes: Counter

    private struct Seen {
      var syncCount: UInt64 = 0
      var appendedBytes: UInt64 = 0

      init() {}

      init(_ statistics: Store.Statistics) {
        syncCount = statistics.syncCount
        appendedBytes = statistics.appendedBytes
      }
    }

    /// Figures that the counters already include.
    private let seen = Mutex(Seen())

    init(_ maker: MetricMaker) {
      keys = maker.gauge("keys")
      segments = maker.gauge("segments")
      diskBytes = maker.gauge("disk_bytes")
      liveBytes = maker.gauge("live_bytes")
      indexBytes = maker.gauge("index_bytes")
      spaceAmplification = maker.gauge("space_amplification_ratio")
      writeAmplification = maker.gauge("write_amplification_ratio")
      lastSequence = maker.gauge("last_sequence")
      undurableOperations = maker.gauge("undurable_operations")
      syncUnderWay = maker.gauge("sync_under_way_seconds")
      poisoned = maker.gauge("poisoned")
      syncs = maker.counter("syncs_total")
      appendedBytes = maker.counter("appended_bytes_total")
    }

    func record(_ statistics: Store.Statistics) {
      keys.set(statistics.count)
      segments.set(statistics.segmentCount)
      diskBytes.set(statistics.diskBytes)
      liveBytes.set(statistics.liveBytes)
      indexBytes.set(statistics.indexBytes)
      spaceAmplification.set(statistics.spaceAmplification)
      writeAmplification.set(statistics.writeAmplification)
      let (last, durable) = (statistics.lastSequence.rawValue, statistics.durableSequence.rawValue)
      lastSequence.set(last)
      undurableOperations.set(last > durable ? last - durable : 0)
      syncUnderWay.set(Double(statistics.syncUnderWayNanoseconds ?? 0) / 1e9)
      poisoned.set(statistics.poison == nil ? 0 : 1)
      count(statistics)
    }

    /// Increases the counters. The store counts from its opening, a counter from the start of the
    /// program.
    private func count(_ statistics: Store.Statistics) {
      let (syncCount, bytes) = seen.withLock { seen in
        defer { seen = Seen(statistics) }
        return (
          Self.increase(from: seen.syncCount, to: statistics.syncCount),
          Self.increase(from: seen.appendedBytes, to: statistics.appendedBytes)
        )
      }
      syncs.increment(by: syncCount)
      appendedBytes.increment(by: bytes)
    }

    private static func increase(from before: UInt64, to now: UInt64) -> UInt64 {
      // A lower figure than before: the store was opened again.
      now >= before ? now - before : now
    }
  }

  /// Creates metrics with the same prefix and dimensions.
  struct MetricMaker {
    let dimensions: [(String, String)]
    let factory: any MetricsFactory

    private func label(_ name: String) -> String { "moraine_" + name }

    func counter(_ name: String) -> Counter {
      Counter(label: label(name), dimensions: dimensions, factory: factory)
    }

    func gauge(_ name: String) -> Meter {
      Meter(label: label(name), dimensions: dimensions, factory: factory)
    }

    func timer(_ name: String) -> Timer {
      Timer(
        label: label(name), dimensions: dimensions, preferredDisplayUnit: .seconds,
        factory: factory)
    }
  }
#endif
