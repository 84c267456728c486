import BenchmarkSupport
import MoraineEngine
import SystemPackage

/// Stores a corpus, measures, compacts, and measures again.
struct RatioMeasurement: Sendable {
  let corpus: Corpus
  let reads: Int
  let runs: Int
  let sharesDictionaries: Bool

  func run(_ path: FilePath) async throws -> Grid {
    var configuration = Store.Configuration()
    configuration.durability = .none
    configuration.compaction = .manual
    configuration.compaction.sharesDictionaries = sharesDictionaries
    let store = try Store(at: path, configuration: configuration)
    let filling = try await ContinuousClock().measure {
      for number in 0..<corpus.count {
        try await store.set(corpus.values[number], forKey: corpus.keys[number])
      }
    }
    let before = try await store.statistics()
    let readsBefore = try await randomReads(store)
    var report: CompactionReport?
    let compacting = try await ContinuousClock().measure { report = try await store.compact() }
    let after = try await store.statistics()
    let readsAfter = try await randomReads(store)
    try await check(store)
    try await store.close()
    let both = [before, after]
    var grid = Grid(["", "before compact()", "after"])
    grid.add("stored, MB", both.map { megabytes($0.diskBytes) })
    let raw = Double(corpus.valueBytes)
    grid.add("stored / values", both.map { decimal(Double($0.diskBytes) / raw, 4) })
    let all = raw + Double(corpus.keyBytes)
    grid.add("stored / (keys + values)", both.map { decimal(Double($0.diskBytes) / all, 4) })
    let reads = [readsBefore, readsAfter]
    grid.add("a random read, ns", reads.map { decimal($0.elapsed, 0) })
    grid.add("a random read, ns of processor time", reads.map { decimal($0.processor, 0) })
    let put = filling.milliseconds * 1e6 / Double(corpus.count)
    grid.add("a put, ns", [decimal(put, 0), ""])
    grid.add("compact(), ms", ["", decimal(compacting.milliseconds, 0)])
    grid.add("segments compacted", ["", "\(report?.inputSegmentCount ?? 0)"])
    grid.add("on disk after closing, MB", ["", megabytes(try allocatedBytes(path))])
    return grid
  }

  /// - Returns: nanoseconds of one read.
  private func randomReads(
    _ store: Store
  ) async throws -> (elapsed: Double, processor: Double) {
    var generator = SplitMix64(seed: 4)
    let order = (0..<reads).map { _ in Int.random(in: 0..<corpus.count, using: &generator) }
    // Copies of the keys, in the order of the reads: the time to find a key in memory is no part of
    // a read.
    let wanted = order.map { number in Key(corpus.keys[number].bytes.map { $0 }) }
    var elapsed: [Double] = []
    var processor: [Double] = []
    for run in 0...runs {
      var bytes = 0
      let before = processorSeconds()
      let duration = try await ContinuousClock().measure {
        for key in wanted { bytes += try await store.value(forKey: key)?.count ?? 0 }
      }
      let used = processorSeconds() - before
      guard bytes == order.reduce(0, { $0 + corpus.values[$1].count }) else {
        throw WrongAnswer(row: "random reads")
      }
      guard run > 0 else { continue }
      elapsed.append(duration.milliseconds * 1e6 / Double(reads))
      processor.append(used * 1e9 / Double(reads))
    }
    return (median(elapsed), median(processor))
  }

  private func check(_ store: Store) async throws {
    guard try await store.count() == corpus.count else {
      throw WrongAnswer(row: "count after compact()")
    }
    for number in 0..<corpus.count {
      guard try await store.value(forKey: corpus.keys[number]) == corpus.values[number] else {
        throw WrongAnswer(row: "value of \(corpus.keys[number]) after compact()")
      }
    }
  }
}
