import BenchmarkSupport
import Histogram
import MoraineEngine
import SystemPackage

/// The cost of overwriting while compaction runs.
struct OverwriteFigures {
  private let operations: Int
  /// Statistics after loading.
  private let before: Store.Statistics
  var latency = Histogram<UInt64>(highestTrackableValue: 600_000_000_000)
  var nanoseconds: UInt64 = 0
  /// Longest time between two consecutive completions of puts.
  var longestGap: UInt64 = 0
  private var after: Store.Statistics
  private var maxAmplification = 0.0
  private var maxAllocated: UInt64 = 0
  private var endAllocated: UInt64 = 0
  private var sampleCount = 0
  /// Number of samples that found new bytes of compaction: a lower bound for the number of
  /// compactions.
  private var seenCompactions = 0
  private var lastCompactionBytes: UInt64
  /// Errors that did not stop the benchmark.
  var problems: [String] = []
  /// Statistics after a while without writes.
  var rested: Store.Statistics?

  init(_ operations: Int, _ before: Store.Statistics) {
    self.operations = operations
    self.before = before
    after = before
    lastCompactionBytes = before.compactionBytes
  }

  mutating func sample(_ statistics: Store.Statistics, _ path: FilePath) throws {
    sampleCount += 1
    if statistics.compactionBytes > lastCompactionBytes { seenCompactions += 1 }
    lastCompactionBytes = statistics.compactionBytes
    maxAmplification = max(maxAmplification, statistics.spaceAmplification)
    endAllocated = try allocatedBytes(path)
    maxAllocated = max(maxAllocated, endAllocated)
    after = statistics
  }

  private var writeAmplification: Double {
    let appended = after.appendedBytes - before.appendedBytes
    return 1 + Double(after.compactionBytes - before.compactionBytes) / Double(appended)
  }

  /// Bytes that were written and no longer exist.
  private var removedBytes: UInt64 {
    let written = after.appendedBytes + after.compactionBytes
    return written > after.diskBytes ? written - after.diskBytes : 0
  }

  private var cells: [(name: String, cell: String)] {
    let live = Double(after.liveBytes)
    let percentiles = [("50", 50), ("99", 99), ("99.9", 99.9), ("99.99", 99.99)].map {
      ("put p\($0.0), µs", decimal(Double(latency.valueAtPercentile($0.1)) / 1e3))
    }
    return [
      ("µs an overwrite, in all", decimal(Double(nanoseconds) / 1e3 / Double(operations), 3)),
      ("put mean, µs", decimal(latency.mean / 1e3, 3)),
    ] + percentiles + [
      ("put max, ms", decimal(Double(latency.max) / 1e6)),
      ("longest without a completed put, ms", decimal(Double(longestGap) / 1e6)),
      ("live, MB", megabytes(after.liveBytes)),
      ("segments / live, at the end", decimal(after.spaceAmplification)),
      ("segments / live, 2 s later", decimal(rested?.spaceAmplification ?? .nan)),
      ("segments / live, most", decimal(maxAmplification)),
      ("allocated / live, at the end", decimal(Double(endAllocated) / live)),
      ("allocated / live, most", decimal(Double(maxAllocated) / live)),
      ("write amplification", decimal(writeAmplification)),
      ("compactions with output seen, at least", "\(seenCompactions)"),
      ("removed by compaction, MB", megabytes(removedBytes)),
      ("segments at the end", "\(after.segmentCount)"),
      ("samples", "\(sampleCount)"),
      ("problems", "\(problems.count)"),
    ]
  }

  static func grid(_ columns: [(name: String, figures: OverwriteFigures)]) -> Grid {
    var grid = Grid([""] + columns.map(\.name))
    let cells = columns.map(\.figures.cells)
    for (row, first) in cells[0].enumerated() { grid.add(first.name, cells.map { $0[row].cell }) }
    return grid
  }
}
