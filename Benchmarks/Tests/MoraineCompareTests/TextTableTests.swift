import Testing

@testable import MoraineCompare

/// The table shows the best engine, the ratios, and which figures are unsteady.
struct TextTableTests {
  @Test(arguments: [
    (2.4, "2.4×"), (0.8, "0.80×"), (1.0, "1.00×"), (1.02, "1.02×"), (0.996, "1.00×"),
    (9.96, "10×"), (41_973.2, "41,973×"), (0.22, "0.22×"), (0.001, "<0.01×"), (0, "–"),
    (.nan, "–"), (.infinity, "–"), (1e300, "1e+300×"),
  ])
  func ratios(_ value: Double, _ text: String) {
    #expect(FigureText.ratio(value) == text)
  }

  @Test(arguments: [
    (0.469, "0.469"), (0.9996, "1.00"), (12.34, "12.3"), (99.96, "100"), (1_234.5, "1,234"),
    (402_943, "402,943"), (0, "0"), (0.0001, "1.0e-04"), (-1_234, "-1,234"), (1e300, "1.0e+300"),
    (.nan, "–"),
  ])
  func figures(_ value: Double, _ text: String) {
    #expect(FigureText.figure(value) == text)
  }

  @Test func durationsAndCounts() {
    let durations = [0.4, 350, 999.6, 1_500, 2e7, 3e9].map(FigureText.duration(nanoseconds:))
    #expect(durations == ["0.4 ns", "350 ns", "1 µs", "1.5 µs", "20 ms", "3 s"])
    #expect([0, 1, 500, 20_000, 1e7].map(FigureText.count) == ["0", "1", "500", "20k", "10M"])
  }

  @Test func theBestIsMarkedAndWhatIsUnsteady() throws {
    let lines = Report.sample.text.split(separator: "\n").map(String.init)
    let fill = try #require(lines.first { $0.hasPrefix("fillrandom  µs") })
    // 0.4 and 0.6 are exactly a fifth away from 0.5. LMDB's 9.0 is far away.
    #expect(
      fill.split(separator: " ") == [
        "fillrandom", "µs", "none", "0.500*", "1.50~", "1.00", "2.0×",
      ])
    let scan = try #require(lines.first { $0.hasPrefix("scan rate  MB/s ↑") })
    #expect(scan.hasSuffix("500  2,000*      0.25×"))
  }

  @Test func whatIsMissingIsSaid() {
    for text in [Report.sample.text, Report.sample.markdown] {
      #expect(text.contains("does not build"))
      #expect(text.contains("append mode") && text.contains("keys in random order"))
      #expect(text.contains("2026-11-21T23:50:12Z") && text.contains("MoraineCompare run"))
      #expect(text.contains("medians of 3 rounds") && text.contains("a single round"))
    }
  }

  @Test func nothingMeasured() {
    var report = Report.sample
    report.figures = [.init(engine: "lmdb", row: "fillrandom", values: [])]
    #expect(report.markdown.contains("| fillrandom | µs | none | – |"))
    report.figures = []
    #expect(report.text.contains("nothing measured"))
    report.rows = []
    #expect(!report.text.isEmpty && !report.markdown.isEmpty)
  }

  @Test func zeroHasNoRatio() {
    var report = Report.sample
    report.figures[0].values = [0]
    #expect(report.bestPeer(report.rows[0]) == nil)
    #expect(report.isUnsteady("moraine", "fillrandom") == false)
    #expect(report.text.contains("0*"))
  }

  @Test func anOrderedKeyspaceIsComparedWithThePeers() {
    var report = Report.sample
    report.engines.append(
      .init(name: "ordered", title: "Moraine, ordered", version: "", settings: ""))
    report.figures[0].engine = "ordered"
    #expect(report.ours("fillrandom") == 0.5)
    #expect(report.bestPeer(report.rows[0])?.engine == "tkrzw")
    #expect(report.bestPeer(report.rows[0])?.ratio == 2)
  }

  @Test func moraineInAnotherWayIsNoPeer() {
    var report = Report.sample
    report.engines.append(
      .init(name: "snapshot", title: "Moraine, snapshot", version: "", settings: ""))
    report.figures.append(.init(engine: "snapshot", row: "fillrandom", values: [0.1]))
    #expect(report.bestPeer(report.rows[0])?.engine == "tkrzw")
    #expect(report.best(report.rows[0]) == 0.1)
  }

  @Test func theHarnessIsNeitherBestNorAPeer() throws {
    var report = Report.sample
    report.engines.append(
      .init(name: "harness", title: "(harness)", version: "", settings: "does nothing"))
    report.figures.append(.init(engine: "harness", row: "fillrandom", values: [0.01]))
    #expect(report.bestPeer(report.rows[0])?.engine == "tkrzw")
    #expect(report.best(report.rows[0]) == 0.5)
    #expect(report.text.contains(" 0.010 ") && !report.text.contains("0.010*"))
    let picture = try #require(ThroughputChart.draw(report, rows: ["fillrandom"]))
    #expect(!picture.contains("harness)"))
  }

  @Test func failuresAreListed() {
    var report = Report.sample
    report.failures = ["lmdb, YCSB: it took longer than 60 seconds", "odd"]
    for text in [report.text, report.markdown] {
      #expect(text.contains("Failed") && text.contains("longer than 60 seconds"))
    }
  }

  @Test func tenEnginesFitATerminal() {
    var report = Report.sample
    report.engines = [
      "moraine", "snapshot", "rocksdb", "leveldb", "lmdb", "sqlite", "tkrzw", "grdb",
      "pattern", "harness",
    ].map { .init(name: $0, title: $0, version: "1.2.3", settings: $0 + " with many a word") }
    report.figures = report.engines.flatMap { engine in
      report.rows.map { .init(engine: engine.name, row: $0.name, values: [234_567, 1, 402_943]) }
    }
    for line in report.text.split(separator: "\n") { #expect(line.count <= 140, "\(line)") }
  }

  @Test func markdownKeepsItsSigns() {
    let markdown = Report.sample.markdown
    #expect(markdown.contains("NOSYNC\\|WRITEMAP"))
    #expect(markdown.contains("a &lt;processor> & more"))
    #expect(markdown.contains("0.500\\*") && markdown.contains("1.50\\~"))
    #expect(markdown.contains("|---|---|---|--:|--:|--:|--:|"))
  }
}
