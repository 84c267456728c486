import Moraine
import MoraineTesting
import SystemPackage

/// Speaks `drive`'s protocol for a kill harness: puts, deletes, batches, reads, syncs, compactions.
struct DriveScript: KillScript {
  let model = DriveModel()
  let closingLines: [String]? = ["close"]

  private let operations: DriveOperations
  /// Number of the last operation generated.
  private var number: UInt64 = 0

  init(seed: UInt64) {
    operations = DriveOperations(seed: seed)
  }

  mutating func nextCommand(
    using generator: inout SeededGenerator
  ) -> KillCommand<DriveModel.Operation>? {
    switch Int.random(in: 0..<100, using: &generator) {
    // Compaction changes no contents. It ends with an index checkpoint.
    case 0..<3: return KillCommand(lines: ["compact"])
    case 3..<5: return KillCommand(lines: ["sync"])
    case 5..<10:
      let key = Int.random(in: 0..<DriveOperations.keyCount, using: &generator)
      return KillCommand(lines: ["get \(Self.text(DriveOperations.key(key)))"])
    default:
      number += 1
      let operation = operations.operation(number)
      return KillCommand(lines: Self.lines(operation), operation: operation)
    }
  }

  mutating func meaning(
    of line: String, to command: KillCommand<DriveModel.Operation>?,
    _ ledger: AcknowledgementLedger<DriveModel>
  ) -> KillAnswer<DriveModel.Operation> {
    guard let command, let first = command.lines.first else {
      return .wrong(KillViolation(.badAnswer, "an answer to nothing: \(line.prefix(200))"))
    }
    guard first.hasPrefix("get ") else {
      // The answers to `compact` and `close` have no number.
      if line == "ok" || line.hasPrefix("ok ") { return .acknowledged }
      let text = "\(line.prefix(200)), to \(first.prefix(200))"
      return .wrong(KillViolation(.badAnswer, text))
    }
    let key = Hexadecimal.decode(Array(first.utf8).dropFirst("get ".utf8.count)) ?? []
    switch Self.value(line) {
    case .failure(let violation): return .wrong(violation)
    case .success(let value) where value == ledger.model.values[key]: return .acknowledged
    case .success(let value):
      return .wrong(violation(key, value, ledger.model.values[key], ledger))
    }
  }

  mutating func check(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<DriveModel>
  ) async throws -> KillFinding<DriveModel>? {
    let seen = try await program.ask("scan")
    if let count = ledger.survivors(where: { $0.scanAnswer == seen }) { return .survivors(count) }
    guard seen.hasPrefix("count ") else { throw KillViolation(.badAnswer, seen) }
    throw try await difference(program, ledger, seen)
  }

  /// Returns the violation of a store with a wrong digest: its first difference from the expected
  /// state that is closest to it.
  private func difference(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<DriveModel>, _ seen: String
  ) async throws -> KillViolation {
    var values: [[UInt8]: [UInt8]] = [:]
    for number in 0..<DriveOperations.keyCount {
      let key = DriveOperations.key(number)
      let answer = try await program.ask("get \(Self.text(key))")
      switch Self.value(answer) {
      case .success(let value): values[key] = value
      case .failure(let violation): return violation
      }
    }
    var state = ledger.model
    var closest = differences(values, state)
    for operation in ledger.inFlight {
      state.apply(operation)
      let found = differences(values, state)
      if found.count < closest.count { closest = found }
    }
    guard let (key, wanted) = closest.first else {
      let wanted = ledger.model.scanAnswer
      return KillViolation(.invented, "\(seen), expected \(wanted): keys that no operation wrote")
    }
    return violation(key, values[key], wanted, ledger)
  }

  /// Returns the keys at which a store and a state differ, each with its value in the state.
  private func differences(
    _ values: [[UInt8]: [UInt8]], _ state: DriveModel
  ) -> [(key: [UInt8], wanted: [UInt8]?)] {
    (0..<DriveOperations.keyCount).map(DriveOperations.key)
      .filter { values[$0] != state.values[$0] }.map { ($0, state.values[$0]) }
  }

  private func violation(
    _ key: [UInt8], _ value: [UInt8]?, _ wanted: [UInt8]?,
    _ ledger: AcknowledgementLedger<DriveModel>
  ) -> KillViolation {
    let isPart = ledger.inFlight.contains { operation in
      operation.changes.contains { value != nil && $0.key == key && $0.value == value }
    }
    let isKnown = value.map { operations.contains(key: key, value: $0, upTo: number) } ?? true
    let texts = [value, wanted].map { $0.map { "value " + Self.text($0).prefix(80) } ?? "none" }
    return KillViolation(
      isKnown && !isPart ? .lost : .invented,
      "\(String(decoding: key, as: UTF8.self)) is \(texts[0]), expected \(texts[1])")
  }

  /// Returns the value in an answer to `get`.
  private static func value(_ answer: String) -> Result<[UInt8]?, KillViolation> {
    if answer == "none" { return .success(nil) }
    let digits = Array(answer.utf8).dropFirst("value ".utf8.count)
    guard answer.hasPrefix("value "), let bytes = Hexadecimal.decode(digits) else {
      return .failure(KillViolation(.badAnswer, "\(answer.prefix(200)), to get"))
    }
    return .success(bytes)
  }

  private static func lines(_ operation: DriveModel.Operation) -> [String] {
    let lines = operation.changes.map { key, value in
      value.map { "put \(text(key)) \(text($0))" } ?? "del \(text(key))"
    }
    return lines.count == 1 ? lines : ["batch \(lines.count)"] + lines
  }

  private static func text(_ bytes: [UInt8]) -> String {
    var digits: [UInt8] = []
    Hexadecimal.append(bytes, to: &digits)
    return String(decoding: digits, as: UTF8.self)
  }
}
