import Moraine
import MoraineTesting
import SystemPackage

/// Speaks `drive`'s protocol for a kill harness: puts, deletes, batches, reads, syncs, compactions.
struct DriveScript: KillScript {
  let model = DriveModel()
  let closingLines: [String]? = ["close"]

  private let operations: DriveOperations
  /// Of the last operation made.
  private var number: UInt64 = 0

  init(seed: UInt64) {
    operations = DriveOperations(seed: seed)
  }

  mutating func nextCommand(
    using generator: inout SeededGenerator
  ) -> KillCommand<DriveModel.Operation>? {
    switch Int.random(in: 0..<100, using: &generator) {
    // Changes nothing that can be seen. It ends with an index checkpoint.
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
      // `compact` and `close` have no number to tell.
      if line == "ok" || line.hasPrefix("ok ") { return .acknowledged }
      let text = "\(line.prefix(200)), to \(first.prefix(200))"
      return .wrong(KillViolation(.badAnswer, text))
    }
    guard let key = Hexadecimal.decode(Array(first.utf8)[4...]) else { return .ignored }
    if let violation = violation(key, line, [ledger.model.values[key]]) {
      return .wrong(violation)
    }
    return .acknowledged
  }

  mutating func check(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<DriveModel>
  ) async throws -> KillFinding<DriveModel>? {
    let seen = try await program.ask("scan")
    if let count = ledger.survivors(where: { $0.scanAnswer == seen }) { return .survivors(count) }
    guard seen.hasPrefix("count ") else { throw KillViolation(.badAnswer, seen) }
    throw try await difference(program, ledger, seen)
  }

  /// What is wrong in a store whose digest is.
  private func difference(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<DriveModel>, _ seen: String
  ) async throws -> KillViolation {
    var states = [ledger.model]
    for operation in ledger.inFlight {
      var state = states[states.count - 1]
      state.apply(operation)
      states.append(state)
    }
    for index in 0..<DriveOperations.keyCount {
      let key = DriveOperations.key(index)
      let answer = try await program.ask("get \(Self.text(key))")
      if let violation = violation(key, answer, states.map { $0.values[key] }) { return violation }
    }
    return KillViolation(
      .invented,
      """
      scan says \(seen), expected \(ledger.model.scanAnswer); each key alone is as it may be, so \
      there is half of an operation, or a key that was never written
      """)
  }

  /// What is wrong with an answer to `get`.
  ///
  /// - Parameter expected: any of these would be right.
  private func violation(
    _ key: [UInt8], _ answer: String, _ expected: [[UInt8]?]
  ) -> KillViolation? {
    var value: [UInt8]?
    if answer != "none" {
      guard answer.hasPrefix("value "), let bytes = Hexadecimal.decode(Array(answer.utf8)[6...])
      else { return KillViolation(.badAnswer, "\(answer.prefix(200)), to get") }
      value = bytes
    }
    guard !expected.contains(value) else { return nil }
    let isKnown = value.map { operations.contains(key: key, value: $0, upTo: number) } ?? true
    let wanted = (expected[0].map(Self.text) ?? "none").prefix(80)
    return KillViolation(
      isKnown ? .lost : .invented,
      "\(String(decoding: key, as: UTF8.self)) is \(answer.prefix(80)), expected \(wanted)")
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
