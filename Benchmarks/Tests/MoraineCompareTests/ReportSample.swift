@testable import MoraineCompare

extension Report {
  /// A report of Moraine, two peers, and one peer that could not be measured, with two rows in two
  /// groups.
  static var sample: Report {
    var report = Report(
      date: "2026-11-21T23:50:12Z",
      machine: .init(
        processor: "a <processor> & more", coreCount: 2, memoryBytes: 24 << 30,
        fileSystem: "ext4", operatingSystem: "Linux"),
      command: "MoraineCompare run",
      engines: [
        .init(name: "moraine", title: "Moraine", version: "0.7", settings: "as it comes"),
        .init(name: "lmdb", title: "LMDB", version: "0.9", settings: "NOSYNC|WRITEMAP"),
        .init(name: "tkrzw", title: "Tkrzw HashDBM", version: "1.0", settings: "append mode"),
        .init(
          name: "grdb", title: "GRDB", version: "7", settings: "WAL", missing: "does not build"),
      ],
      rows: [
        .init(
          name: "fillrandom", group: "db_bench", unit: "µs", durability: "none",
          meaning: "keys in random order"),
        .init(
          name: "scan rate", group: "scans", unit: "MB/s", meaning: "the whole store",
          lessIsBetter: false),
      ])
    report.figures = [
      .init(engine: "moraine", row: "fillrandom", values: [0.5, 0.4, 0.6]),
      .init(engine: "lmdb", row: "fillrandom", values: [1.5, 1.3, 9.0]),
      .init(engine: "tkrzw", row: "fillrandom", values: [1.0, 1.01, 0.99]),
      .init(engine: "moraine", row: "scan rate", values: [500]),
      .init(engine: "lmdb", row: "scan rate", values: [2_000]),
    ]
    return report
  }

  /// A report with data for every picture.
  static var full: Report {
    var report = sample
    let percentiles = [50, 90, 99, 99.9, 99.99, 100.0]
    for (engine, factor) in [("moraine", 1.0), ("lmdb", 3), ("tkrzw", 2)] {
      for row in ["put latency", "get latency"] {
        report.latencies.append(
          .init(
            engine: engine, row: row, percentiles: percentiles,
            nanoseconds: [400, 500, 900, 9_000, 200_000, 3e6].map { $0 * factor }))
      }
      report.series.append(
        .init(
          chart: "open", engine: engine, x: [1e4, 1e5, 1e6], y: [0.4, 0.6, 0.8].map { $0 * factor })
      )
      report.series.append(
        .init(chart: "space", engine: engine, x: [0, 1, 2], y: [1, 1.2, 1.4].map { $0 * factor }))
    }
    return report
  }
}
