import ArgumentParser
import Foundation
import Moraine

struct Scan: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints keys and values, a tab between, a line each, in the order of the log.")
  @OptionGroup var store: StoreOptions
  @Option(help: "Only keys that begin with this.") var prefix: String?
  @Flag(help: "Leave the values out.") var keysOnly = false
  @Option(help: "Stop after so many.") var limit: Int?

  func run() async throws {
    let opened = try await store.openExisting()
    let wanted = Array((prefix ?? "").utf8)
    let most = limit ?? Int.max
    let keysOnly = keysOnly
    var count = 0
    if most > 0 {
      try await opened.forEach { entry in
        guard entry.key.bytes.starts(with: wanted) else { return true }
        let key = Output.printable(entry.key.bytes)
        Output.line(keysOnly ? key : key + "\t" + Output.printable(entry.value))
        count += 1
        return count < most
      }
    }
    try await opened.close()
  }
}

struct Dump: AsyncParsableCommand {
  enum Format: String, ExpressibleByArgument, CaseIterable {
    case jsonl, hex
  }

  static let configuration = CommandConfiguration(
    abstract: "Prints everything live, a line each, in the order of the log.")
  @OptionGroup var store: StoreOptions
  @Option(help: "jsonl: the values' bytes; hex: key, sequence number and value.")
  var format = Format.jsonl

  func run() async throws {
    let opened = try await store.openExisting()
    let format = format
    try await opened.forEach { entry in
      switch format {
      case .jsonl: Output.bytes(entry.value + [10])
      case .hex:
        let key = Hexadecimal.encode(entry.key.bytes)
        Output.line("\(key) \(entry.sequence) \(Hexadecimal.encode(entry.value))")
      }
      return true
    }
    try await opened.close()
  }
}

struct Stats: AsyncParsableCommand {
  static let configuration = CommandConfiguration(abstract: "Prints a store's figures.")
  @OptionGroup var store: StoreOptions
  @Flag(help: "As one JSON object.") var json = false

  func run() async throws {
    let opened = try await store.openExisting()
    let statistics = await opened.statistics
    try await opened.close()
    Output.line(json ? statistics.json : statistics.description)
  }
}

struct Verify: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Reads and checks every byte. Exit code 3 when something is damaged.")
  @OptionGroup var store: StoreOptions
  @Flag(help: "As one JSON object.") var json = false

  func run() async throws {
    let opened = try await store.openExisting()
    let report = try await opened.verify(nil)
    try await opened.close()
    for problem in report.problems { Output.error(problem.description) }
    let summary = "\(report.recordCount) records, \(report.checkedBytes) bytes"
    if json {
      Output.line(
        "{\"recordCount\":\(report.recordCount),\"checkedBytes\":\(report.checkedBytes),"
          + "\"problemCount\":\(report.problems.count)}")
    } else if report.isSound {
      Output.line("sound: " + summary)
    }
    guard report.isSound else { throw Failure(code: 3, message: nil) }
  }
}
