import Foundation
import Testing

@testable import MoraineCompare

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// Pictures are well-formed, the same each time, and show only measured figures.
struct ChartTests {
  @Test func allPicturesAreWellFormed() throws {
    let pictures = ChartBook.pictures(.full)
    #expect(
      pictures.map(\.name) == [
        "throughput.svg", "latency-put.svg", "latency-get.svg", "open.svg", "space.svg",
      ])
    for (name, text) in pictures {
      let elements = try elements(text, name)
      for element in ["svg", "title", "desc", "style", "text"] {
        #expect(elements.contains(element), "\(name) has no \(element)")
      }
      #expect(text.contains("2026-11-21") && text.contains("a &lt;processor&gt; &amp; more"))
      #expect(!text.contains("nan") && !text.contains("inf\""), "\(name)")
    }
  }

  @Test func theSameReportGivesTheSameBytes() {
    #expect(ChartBook.pictures(.full).map(\.text) == ChartBook.pictures(.full).map(\.text))
  }

  @Test func missingDataLeaveThePictureOut() {
    #expect(ChartBook.pictures(.sample).map(\.name) == ["throughput.svg"])
    var alone = Report.full
    alone.figures.removeAll { $0.engine != "moraine" }
    alone.series.removeAll { $0.chart == "open" }
    alone.latencies.removeAll { $0.row == "get latency" }
    #expect(ChartBook.pictures(alone).map(\.name) == ["latency-put.svg", "space.svg"])
    alone.rows = []
    alone.engines = []
    #expect(ChartBook.pictures(alone).isEmpty)
  }

  @Test func filesAreWritten() throws {
    let folder = FileManager.default.temporaryDirectory
      .appendingPathComponent("charts-\(UUID().uuidString)/inner")
    defer {
      #expect(throws: Never.self) {
        try FileManager.default.removeItem(at: folder.deletingLastPathComponent())
      }
    }
    let names = try ChartBook.write(.full, to: folder.path)
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() == names.sorted())
    for (name, text) in ChartBook.pictures(.full) {
      let bytes = try Data(contentsOf: folder.appendingPathComponent(name))
      #expect(bytes == Data(text.utf8))
    }
  }

  @Test func theBestPeerBearsItsRatio() throws {
    let text = try #require(ThroughputChart.draw(.full, rows: ["fillrandom", "scan rate"]))
    // 1.0 µs against 0.5, and 500 MB/s against 2,000; not LMDB's 3.0 of the first row.
    #expect(text.contains(">2.0×</text>") && text.contains(">0.25×</text>"))
    #expect(!text.contains(">3.0×</text>"))
    #expect(text.contains("fillrandom: LMDB 3.0×, Tkrzw HashDBM 2.0×"))
  }

  @Test func aSingleValueOfEach() throws {
    var report = Report.sample
    report.figures = [
      .init(engine: "moraine", row: "fillrandom", values: [1]),
      .init(engine: "lmdb", row: "fillrandom", values: [1]),
    ]
    report.latencies = [
      .init(engine: "lmdb", row: "put latency", percentiles: [50], nanoseconds: [1])
    ]
    report.series = [
      .init(chart: "open", engine: "lmdb", x: [1], y: [1]),
      .init(chart: "space", engine: "lmdb", x: [0], y: [0]),
    ]
    let pictures = ChartBook.pictures(report)
    #expect(pictures.count == 4)
    for (name, text) in pictures { _ = try elements(text, name) }
  }

  @Test(arguments: [0, -1, .leastNonzeroMagnitude, 1e308, .nan, .infinity, -.infinity] as [Double])
  func strangeValues(_ value: Double) throws {
    var report = Report.full
    for index in report.figures.indices { report.figures[index].values[0] = value }
    for index in report.latencies.indices { report.latencies[index].nanoseconds[1] = value }
    for index in report.series.indices {
      report.series[index].y[1] = value
      if index.isMultiple(of: 3) { report.series[index].x[0] = value }
    }
    for (name, text) in ChartBook.pictures(report) { _ = try elements(text, name) }
  }

  @Test func whatGrowsOutOfThePictureEndsAtItsEdge() throws {
    var report = Report.full
    report.series.removeAll { $0.chart == "space" && $0.engine == "tkrzw" }
    report.series.append(.init(chart: "space", engine: "tkrzw", x: [0, 1, 2], y: [2, 400, 800]))
    let text = try #require(CurveChart.draw(report, .space))
    #expect(text.contains("800 ↑"))
    let curve = LinePlot.Curve(
      engine: "lmdb", title: "LMDB", points: [(0, 1), (1, 5), (2, 5), (3, 1)], last: "1")
    let pieces = curve.pieces(below: 3)
    #expect(pieces.map { $0.map(\.x) } == [[0, 0.5], [2.5, 3]])
    #expect(pieces.map { $0.map(\.y) } == [[1, 3], [3, 1]])
  }

  @Test func namesDoNotLieOnEachOther() {
    let places = LinePlot.apart([10, 10, 12, 60, 98], gap: 10, within: 0...100)
    #expect(places == [10, 20, 30, 60, 98])
    #expect(LinePlot.apart([95, 96, 97], gap: 10, within: 0...100) == [80, 90, 100])
    #expect(LinePlot.apart([], gap: 10, within: 0...100).isEmpty)
  }

  @Test func enginesHaveColoursOfTheirOwn() {
    let engines = [
      "moraine", "rocksdb", "leveldb", "lmdb", "sqlite", "tkrzw", "grdb", "pattern", "newcomer",
    ]
    let palette = Palette(engines: engines)
    #expect(Set(engines.map(palette.color)).count == engines.count)
    #expect(palette.color("snapshot") == palette.color("moraine"))
    #expect(Set(engines.map(Palette.name)).count == engines.count)
  }

  @Test func textIsEscaped() {
    #expect(SVG.escaped("a<b>&\"c\"\u{1}\u{0}") == "a&lt;b&gt;&amp;&quot;c&quot;")
    #expect(SVG.escaped("µs, Grüße\n×") == "µs, Grüße ×")
  }

  @Test func numbersAreShort() {
    #expect(
      [0, -0.001, 1.5, 2.999, 100, -7.25].map(SVG.number) == [
        "0", "0", "1.5", "3", "100", "-7.25",
      ])
    #expect(SVG.number(.nan) == "0")
  }

  @Test func tenRowsOfSpeedAtMost() {
    var report = Report.sample
    for number in 0..<20 {
      report.rows.append(
        .init(name: "row \(number)", group: "more", unit: "µs", meaning: ""))
      report.rows.append(.init(name: "space \(number)", group: "more", unit: "MB", meaning: ""))
      for engine in ["moraine", "lmdb"] {
        for name in ["row \(number)", "space \(number)"] {
          report.figures.append(.init(engine: engine, row: name, values: [1]))
        }
      }
    }
    report.rows.append(.init(name: "YCSB-A 100 B", group: "YCSB", unit: "µs", meaning: ""))
    report.figures += ["moraine", "lmdb"].map {
      .init(engine: $0, row: "YCSB-A 100 B", values: [1])
    }
    let rows = ChartBook.throughputRows(report)
    #expect(rows.count == 10)
    #expect(rows.first == "fillrandom" && rows.last == "YCSB-A 100 B")
    #expect(!rows.contains { $0.hasPrefix("space") })
  }

  @Test func orderedKeysHaveAPictureOfTheirOwn() throws {
    var report = Report.sample
    report.engines.append(
      .init(name: "ordered", title: "Moraine, ordered", version: "", settings: ""))
    report.rows.append(.init(name: "seek", group: "ordered keys", unit: "µs", meaning: ""))
    report.figures.append(.init(engine: "ordered", row: "seek", values: [1]))
    report.figures.append(.init(engine: "lmdb", row: "seek", values: [3]))
    let pictures = ChartBook.pictures(report)
    #expect(pictures.map(\.name) == ["throughput.svg", "ordered.svg"])
    #expect(!ChartBook.throughputRows(report).contains("seek"))
    let text = try #require(pictures.last?.text)
    #expect(text.contains("seek: LMDB 3.0×") && text.contains("Moraine 1.00 µs"))
  }

  /// Returns the names of all elements. Records an issue where the text is no XML.
  private func elements(_ text: String, _ name: String) throws -> Set<String> {
    let names = ElementNames()
    let parser = XMLParser(data: Data(text.utf8))
    parser.delegate = names
    #expect(parser.parse(), "\(name): \(String(describing: parser.parserError))")
    return names.found
  }
}

private final class ElementNames: NSObject, XMLParserDelegate {
  private(set) var found: Set<String> = []

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?,
    qualifiedName: String?, attributes: [String: String]
  ) {
    found.insert(name)
  }
}
