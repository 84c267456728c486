import Foundation

/// All figures of one run of the comparison. The report is written as JSON, from which the table
/// and the charts can be drawn again.
struct Report: Codable, Sendable {
  /// Version of the format. It rises when the program can no longer read earlier files.
  static let currentVersion = 1

  var version = Report.currentVersion
  /// Date of the run, ISO 8601.
  var date: String
  var machine: Machine
  /// The command line that repeats the run.
  var command: String
  var engines: [Engine]
  /// The rows, in the order of the table.
  var rows: [Row]
  var figures: [Figure] = []
  var latencies: [Latency] = []
  var series: [Series] = []
  /// Failures, which are not in the figures.
  var failures: [String] = []

  struct Machine: Codable, Sendable, Equatable {
    var processor: String
    var coreCount: Int
    var memoryBytes: UInt64
    var fileSystem: String
    var operatingSystem: String
  }

  struct Engine: Codable, Sendable, Equatable {
    /// Short name for the command's options: `lmdb`.
    var name: String
    /// The engine's own name.
    var title: String
    var version: String
    /// The engine's configuration in words.
    var settings: String
    /// Reason why it was not measured; nil when it was.
    var missing: String?
  }

  struct Row: Codable, Sendable, Equatable {
    /// Name of the row: `readrandom`.
    var name: String
    /// The table that has the row: `db_bench`, `YCSB`.
    var group: String
    /// Unit of the figures: `µs`, `MB`, `bytes a key`.
    var unit: String
    /// Durability of the writes: `none`, `sync`; nil where the row writes nothing.
    var durability: String?
    /// The row's operations in words.
    var meaning: String
    /// Whether a smaller figure is better.
    var lessIsBetter = true
  }

  /// The figures of one engine in a row, one for each round.
  struct Figure: Codable, Sendable, Equatable {
    var engine: String
    var row: String
    var values: [Double]

    var median: Double { values.sorted()[values.count / 2] }
  }

  /// The times of single operations of a row: nanoseconds by percentile.
  struct Latency: Codable, Sendable, Equatable {
    var engine: String
    var row: String
    /// The percentiles: 50, 90, 99, 99.9, 99.99, 100.
    var percentiles: [Double]
    var nanoseconds: [Double]
  }

  /// A curve of a chart: open time against keys, space against rounds of overwriting.
  struct Series: Codable, Sendable, Equatable {
    /// The chart of the curve: `open`, `space`.
    var chart: String
    var engine: String
    var x: [Double]
    var y: [Double]
  }
}
