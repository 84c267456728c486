import Foundation
import MoraineTesting
import SystemPackage

/// The numbers that a program was requested to keep, in order.
struct Numbers: KillModel {
  var all: [Int] = []

  mutating func apply(_ operation: Int) { all.append(operation) }
}

/// Sends `add N` to a program, and requests a `list` after each kill.
struct CountingScript: KillScript {
  let model = Numbers()
  var closingLines: [String]? = []
  private var last = 0

  init() {}

  mutating func nextCommand(using generator: inout SeededGenerator) -> KillCommand<Int>? {
    last += 1
    return KillCommand(lines: ["add \(last)"], operation: last)
  }

  mutating func meaning(
    of line: String, to command: KillCommand<Int>?, _ ledger: AcknowledgementLedger<Numbers>
  ) -> KillAnswer<Int> {
    switch line {
    case "ok": .acknowledged
    case "no": .refused
    case _ where line.hasPrefix("#"): .ignored
    default: .wrong(KillViolation(.badAnswer, line))
    }
  }

  mutating func check(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<Numbers>
  ) async throws -> KillFinding<Numbers>? {
    try Self.finding(try await program.ask("list"), ledger)
  }

  static func finding(
    _ list: String, _ ledger: AcknowledgementLedger<Numbers>
  ) throws -> KillFinding<Numbers> {
    let seen = list.split(separator: " ").compactMap { Int($0) }
    if let count = ledger.survivors(where: { $0.all == seen }) { return .survivors(count) }
    let isLost = ledger.model.all.contains { !seen.contains($0) }
    throw KillViolation(isLost ? .lost : .invented, "\(seen)")
  }
}

/// Sends numbers in long lines to a program that answers each with the same line; reads its file
/// after each kill.
struct LongLineScript: KillScript {
  let model = Numbers()
  var closingLines: [String]? = []
  private var last = 0

  init() {}

  mutating func nextCommand(using generator: inout SeededGenerator) -> KillCommand<Int>? {
    last += 1
    let line = "\(last) " + String(repeating: "x", count: 6000)
    return KillCommand(lines: [line], operation: last)
  }

  mutating func meaning(
    of line: String, to command: KillCommand<Int>?, _ ledger: AcknowledgementLedger<Numbers>
  ) -> KillAnswer<Int> {
    guard let command, command.lines == [line] else {
      return .wrong(KillViolation(.badAnswer, "\(line.prefix(20))"))
    }
    return .acknowledged
  }

  mutating func inspect(
    _ folder: FilePath, _ ledger: AcknowledgementLedger<Numbers>
  ) async throws -> KillFinding<Numbers>? {
    let file = folder.appending("log").string
    guard FileManager.default.fileExists(atPath: file) else {
      return try CountingScript.finding("", ledger)
    }
    let lines = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n")
    return try CountingScript.finding(lines.joined(separator: " "), ledger)
  }
}

/// Listens to a program that adds numbers without requests; reads its file after each kill.
struct ListeningScript: KillScript {
  let model = Numbers()

  mutating func meaning(
    of line: String, to command: KillCommand<Int>?, _ ledger: AcknowledgementLedger<Numbers>
  ) -> KillAnswer<Int> {
    guard let number = Int(line) else { return .wrong(KillViolation(.badAnswer, line)) }
    return .acknowledgedByItself(number)
  }

  mutating func inspect(
    _ folder: FilePath, _ ledger: AcknowledgementLedger<Numbers>
  ) async throws -> KillFinding<Numbers>? {
    let file = folder.appending("log").string
    guard FileManager.default.fileExists(atPath: file) else {
      return try CountingScript.finding("", ledger)
    }
    let words = try String(contentsOfFile: file, encoding: .utf8)
    let seen = words.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    // The file may hold one number more than was acknowledged.
    guard seen.starts(with: ledger.model.all), seen.count <= ledger.model.all.count + 1 else {
      let isLost = seen.count < ledger.model.all.count
      throw KillViolation(isLost ? .lost : .invented, "\(seen)")
    }
    return .state(Numbers(all: seen))
  }
}
