import BenchmarkSupport
import Foundation

/// Rows that one process measures one after the other.
protocol Workload: Sendable {
  static var name: String { get }
  init(_ size: Size)
  var rows: [Report.Row] { get }
  /// - Parameter folder: an empty folder that only this run uses.
  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws
}

extension Workload {
  /// Makes a folder for another store.
  func make(_ name: String, in folder: String) throws -> String {
    let path = "\(folder)/\(name)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    return path
  }

  func row(
    _ name: String, _ meaning: String, unit: String = "µs", durability: String? = nil
  ) -> Report.Row {
    Report.Row(
      name: name, group: Self.name, unit: unit, durability: durability, meaning: meaning)
  }
}

extension Recorder {
  /// Throws when the engine's answers are wrong. The harness alone has no answers.
  func check(_ isRight: Bool, _ row: String) throws {
    if !isRight && engine != NothingMaker().engine.name {
      throw WrongAnswer(engine: engine, row: row)
    }
  }

  /// Returns the milliseconds to open a store that was closed in order, and to answer the first
  /// get.
  func open<Maker: SubjectMaker>(
    _ maker: Maker, _ place: String, _ data: Dataset, _ value: [UInt8], of number: Int
  ) async throws -> Double {
    let key = data.key(number)
    let began = ContinuousClock.now
    let store = try await maker.open(in: place, SubjectOptions(data))
    var reader = try await store.reader()
    let isRight = try await reader.has(key, value)
    let elapsed = began.duration(to: .now)
    reader.close()
    try await store.close()
    try check(isRight, "open")
    return elapsed.milliseconds
  }
}

/// The size of the measurement.
struct Size: Codable, Sendable {
  /// Number of keys of the main rows.
  var count: Int
  /// Number of durable commits of one writer.
  var commitCount: Int
  var largeCount: Int
  var recordLimit: Int
  var modelCount: Int
  var openCounts: [Int]

  static let short = Size(
    count: 120_000, commitCount: 300, largeCount: 40, recordLimit: 10_000, modelCount: 5_000,
    openCounts: [30_000, 60_000, 120_000])
  static let long = Size(
    count: 1_000_000, commitCount: 2_000, largeCount: 300, recordLimit: .max, modelCount: 100_000,
    openCounts: [100_000, 300_000, 1_000_000, 3_000_000])

  func scaled(to count: Int) -> Size {
    var size = self
    size.count = count
    size.modelCount = count
    size.openCounts = [count / 4, count / 2, count]
    return size
  }
}
