import ArgumentParser
import BenchmarkSupport
import Foundation

/// Measures what an archive costs a store, and how fast it gives the store back.
@main
struct ArchiveBench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "MoraineArchiveBench",
    abstract: "Measures archives: their cost for writers, requests, restores, followers.",
    discussion: """
      Without --row, all rows are measured, one after the other, each in a process of its own. The \
      archive is in a directory, or in the bucket that --address names (build with --traits S3). \
      The stores are in --directory.
      """)

  @Option(help: "The row to measure; may be repeated. Default: all.")
  var row: [Row] = []
  @Option(help: "Where the archives are: a directory, or s3://BUCKET/PREFIX?endpoint=…")
  var address: String?
  @Option(help: "The directory in which the stores are.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "Seconds of one load.")
  var seconds = 20
  @Option(help: "Rounds of a comparison.")
  var rounds = 10
  @Option(help: "Bytes of the large store.")
  var bytes = 1 << 30
  @Option(help: "Bytes a second of the steady load.")
  var rate = 1_000_000
  @Option(help: "Stores of the row `many`.")
  var stores = 400
  @Flag(help: .hidden)
  var isChild = false
  @Option(help: .hidden)
  var part = ""
  @Option(help: .hidden)
  var root: String?

  func run() async throws {
    if isChild, let row = row.first {
      let scratch = try Scratch(in: directory)
      defer { scratch.remove() }
      let bench = Bench(options: self, scratch: scratch)
      for figure in try await row.measure(bench) { print(figure.line) }
      return
    }
    for row in row.isEmpty ? Row.allCases : row {
      note("== \(row.rawValue)")
      for part in row.parts {
        for figure in try child(row, part) { print(figure) }
      }
    }
  }

  /// Runs one part of a row in a process of its own, so that its memory and its time are its own.
  func child(
    _ row: Row, _ part: String, address: String? = nil, root: String? = nil
  ) throws -> [Figure] {
    let process = Process()
    let output = Pipe()
    process.executableURL = Bundle.main.executableURL
    process.arguments =
      [
        "--is-child", "--row", row.rawValue, "--directory", directory, "--seconds", "\(seconds)",
        "--rounds", "\(rounds)", "--bytes", "\(bytes)", "--rate", "\(rate)", "--stores",
        "\(stores)", "--part", part,
      ] + ((address ?? self.address).map { ["--address", $0] } ?? [])
      + (root.map { ["--root", $0] } ?? [])
    process.standardOutput = output
    try process.run()
    let text = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw BenchmarkFailure("the row \(row.rawValue) ended with \(process.terminationStatus)")
    }
    return String(decoding: text, as: UTF8.self).split(separator: "\n").compactMap {
      Figure(line: $0)
    }
  }
}

/// What is measured.
enum Row: String, CaseIterable, ExpressibleByArgument {
  case writes, cut, idle, load, unreachable, uploads, replicated, takeover, restore, memory
  case follower, many, requests

  /// The parts that need a process of their own.
  var parts: [String] {
    switch self {
    case .memory: ["open", "archive", "restore"]
    case .many: ["alone", "archived"]
    default: [""]
    }
  }

  func measure(_ bench: Bench) async throws -> [Figure] {
    switch self {
    case .writes: try await bench.writes()
    case .cut: try await bench.cut()
    case .idle: try await bench.idle()
    case .load: try await bench.load()
    case .unreachable: try await bench.unreachable()
    case .uploads: try await bench.uploads()
    case .replicated: try await bench.replicated()
    case .takeover: try await bench.takeOver()
    case .restore: try await bench.restore()
    case .memory: try await bench.memory()
    case .follower: try await bench.follower()
    case .many: try await bench.many()
    case .requests: try await bench.requests()
    }
  }
}

/// One measured figure, with its unit.
struct Figure: CustomStringConvertible {
  let name: String
  let value: Double
  let unit: String

  init(_ name: String, _ value: Double, _ unit: String) {
    (self.name, self.value, self.unit) = (name, value, unit)
  }

  /// Reads the line that a child has printed.
  init?(line: Substring) {
    let parts = line.split(separator: "\t").map(String.init)
    guard parts.count == 3, let value = Double(parts[1]) else { return nil }
    self.init(parts[0], value, parts[2])
  }

  var line: String { "\(name)\t\(value)\t\(unit)" }

  var description: String {
    let digits = abs(value) >= 100 ? 0 : abs(value) >= 10 ? 1 : 3
    return name.padding(toLength: 58, withPad: " ", startingAt: 0)
      + "\(decimal(value, digits)) \(unit)"
  }
}

/// A run whose answers were wrong.
struct BenchmarkFailure: Error, CustomStringConvertible {
  let description: String
  init(_ text: String) { description = text }
}
