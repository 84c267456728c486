import BenchmarkSupport
import Foundation
import MoraineEngine

/// A run of compact() over segments of which half is garbage.
struct ManualCompaction {
  private let size: Int
  private let sharesDictionaries: Bool
  private var segments = 0
  private var report: CompactionReport?
  private var wall: [Double] = []
  private var processor: [Double] = []

  /// - Parameter size: size of a segment, in MiB.
  init(
    data: TestData, scratch: Scratch, size: Int, runs: Int, sharesDictionaries: Bool
  ) async throws {
    self.size = size
    self.sharesDictionaries = sharesDictionaries
    for _ in 1...runs { try await run(data, scratch) }
  }

  private mutating func run(_ data: TestData, _ scratch: Scratch) async throws {
    var configuration = Store.Configuration()
    configuration.durability = .none
    configuration.segmentSizeBytes = size << 20
    configuration.compaction = .manual
    configuration.compaction.sharesDictionaries = sharesDictionaries
    let store = try Store(at: scratch.path("manual"), configuration: configuration)
    try await Self.fill(store, data)
    // Otherwise the compaction would wait for writes that are not on disk yet.
    try await store.sync()
    segments = try await store.statistics().segmentCount
    let processorBefore = processorSeconds()
    let elapsed = try await ContinuousClock().measure { report = try await store.compact() }
    processor.append(processorSeconds() - processorBefore)
    wall.append(elapsed.milliseconds / 1e3)
    for number in 0..<data.count {
      guard try await store.value(forKey: data.key(number)) == data.value(number + 1) else {
        throw WrongAnswer(row: "value of key \(number) after compact()")
      }
    }
    try await store.close()
    try scratch.remove("manual")
  }

  /// Puts every key twice, in blocks of 2048 keys in random order. So half of every segment is
  /// garbage, mixed with live records.
  private static func fill(_ store: Store, _ data: TestData) async throws {
    var generator = SplitMix64(seed: 3)
    for start in stride(from: 0, to: data.count, by: 2048) {
      let block = Array(data.order[start..<min(start + 2048, data.count)])
      var isSecond: Set<Int> = []
      for number in (block + block).shuffled(using: &generator) {
        let isFirst = isSecond.insert(number).inserted
        try await store.set(data.value(isFirst ? number : number + 1), forKey: data.key(number))
      }
    }
  }

  static func grid(_ columns: [ManualCompaction]) -> Grid {
    var grid = Grid([""] + columns.map { "\($0.size) MiB segments" })
    grid.add("segments before", columns.map { "\($0.segments)" })
    grid.add("segments compacted", columns.map { "\($0.report?.inputSegmentCount ?? 0)" })
    grid.add("input, MB", columns.map { megabytes($0.report?.inputBytes ?? 0) })
    grid.add("output, MB", columns.map { megabytes($0.report?.outputBytes ?? 0) })
    grid.add("elapsed, ms", columns.map { decimal(median($0.wall) * 1e3, 0) })
    grid.add("processor time, ms", columns.map { decimal(median($0.processor) * 1e3, 0) })
    let input = columns.map { Double($0.report?.inputBytes ?? 0) / 1e6 }
    grid.add(
      "MB of input a second", zip(columns, input).map { decimal($1 / median($0.wall), 0) })
    grid.add(
      "MB of input a second of processor time",
      zip(columns, input).map { decimal($1 / median($0.processor), 0) })
    return grid
  }
}

/// Returns the processor time of this process on all cores, in user and kernel mode.
func processorSeconds() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}
