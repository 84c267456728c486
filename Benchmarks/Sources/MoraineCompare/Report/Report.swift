import Foundation

/// All that one run of the comparison has measured; written as JSON, from which the table and the
/// charts are drawn again at any time.
struct Report: Codable, Sendable {
  /// Raised when a file written before can no longer be read.
  static let currentVersion = 1

  var version = Report.currentVersion
  /// ISO 8601.
  var date: String
  var machine: Machine
  /// The call that measures the same again.
  var command: String
  var engines: [Engine]
  /// In the order in which the table shows them.
  var rows: [Row]
  var figures: [Figure] = []
  var latencies: [Latency] = []
  var series: [Series] = []
  /// What went wrong, and is not in the figures.
  var failures: [String] = []

  struct Machine: Codable, Sendable, Equatable {
    var processor: String
    var coreCount: Int
    var memoryBytes: UInt64
    var fileSystem: String
    var operatingSystem: String
  }

  struct Engine: Codable, Sendable, Equatable {
    /// Short, as the command takes it: `lmdb`.
    var name: String
    /// As it calls itself.
    var title: String
    var version: String
    /// How it is set up, in words.
    var settings: String
    /// Why it was not measured; nil when it was.
    var missing: String?
  }

  struct Row: Codable, Sendable, Equatable {
    /// `readrandom`.
    var name: String
    /// Which table it stands in: `db_bench`, `YCSB`.
    var group: String
    /// `µs`, `MB`, `bytes a key`.
    var unit: String
    /// What is kept when the power fails: `none`, `sync`; nil where nothing is written.
    var durability: String?
    /// What is done, in words.
    var meaning: String
    /// Whether less is better.
    var lessIsBetter = true
  }

  /// What one engine reached in a row, one value for each round.
  struct Figure: Codable, Sendable, Equatable {
    var engine: String
    var row: String
    var values: [Double]

    var median: Double { values.sorted()[values.count / 2] }
  }

  /// How long single operations of a row took: nanoseconds by percentile.
  struct Latency: Codable, Sendable, Equatable {
    var engine: String
    var row: String
    /// 50, 90, 99, 99.9, 99.99, 100.
    var percentiles: [Double]
    var nanoseconds: [Double]
  }

  /// A curve of a chart: open time against keys, space against rounds of overwriting.
  struct Series: Codable, Sendable, Equatable {
    /// Which chart: `open`, `space`.
    var chart: String
    var engine: String
    var x: [Double]
    var y: [Double]
  }
}
