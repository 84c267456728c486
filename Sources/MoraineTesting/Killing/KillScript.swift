public import SystemPackage

/// Tells ``KillHarness`` what to say to a program, what its answers mean, and how to check it.
///
/// The program under test is one of two kinds:
/// - It reads commands, a line each or several, and answers each with one line. The script makes
///   the commands in ``nextCommand(using:)``.
/// - It works by itself and prints a line for each operation that it has acknowledged.
///   ``nextCommand(using:)`` returns nil, and ``meaning(of:to:_:)`` returns
///   ``KillAnswer/acknowledgedByItself(_:)``.
///
/// For a program that answers `add N` with `ok`, and `list` with all that it has:
///
/// ```swift
/// struct Numbers: KillModel {
///   var all: [Int] = []
///   mutating func apply(_ operation: Int) { all.append(operation) }
/// }
///
/// struct NumbersScript: KillScript {
///   let model = Numbers()
///   var last = 0
///
///   mutating func nextCommand(using generator: inout SeededGenerator) -> KillCommand<Int>? {
///     last += 1
///     return KillCommand(lines: ["add \(last)"], operation: last)
///   }
///
///   mutating func meaning(
///     of line: String, to command: KillCommand<Int>?, _ ledger: AcknowledgementLedger<Numbers>
///   ) -> KillAnswer<Int> {
///     line == "ok" ? .acknowledged : .wrong(KillViolation(.badAnswer, line))
///   }
///
///   mutating func check(
///     _ program: KillConversation, _ ledger: AcknowledgementLedger<Numbers>
///   ) async throws -> KillFinding<Numbers>? {
///     let seen = try await program.ask("list").split(separator: " ").compactMap { Int($0) }
///     if let count = ledger.survivors(where: { $0.all == seen }) { return .survivors(count) }
///     throw KillViolation(.lost, "expected \(ledger.model.all), there is \(seen)")
///   }
/// }
/// ```
///
/// A line counts when it is whole, up to its line feed, so the program must not buffer what it
/// prints.
///
/// After each kill at least one of ``inspect(_:_:)`` and ``check(_:_:)`` must come to a finding.
/// They throw ``KillViolation`` for a state that a kill must not cause.
public protocol KillScript: Sendable {
  /// What the program's data is, in memory.
  associatedtype Model: KillModel
  /// What changes it.
  typealias Operation = Model.Operation

  /// The state of an empty folder.
  var model: Model { get }

  /// How to ask for an orderly end: the lines to send, none for the end of the input. Nil for a
  /// program that ends only when it is killed.
  var closingLines: [String]? { get }

  /// What to send next, or nil for a program that works by itself. Random choices come from the
  /// generator, so that the seed repeats them.
  mutating func nextCommand(using generator: inout SeededGenerator) -> KillCommand<Operation>?

  /// What a line of the program's standard output means.
  ///
  /// - Parameters:
  ///   - line: without its line feed.
  ///   - command: the oldest command without an answer; nil when every one has its own.
  ///   - ledger: when this is called, its model holds every operation sent before the command.
  mutating func meaning(
    of line: String, to command: KillCommand<Operation>?, _ ledger: AcknowledgementLedger<Model>
  ) -> KillAnswer<Operation>

  /// Looks at the folder while no process runs, before the program starts again.
  ///
  /// - Returns: nil when it is ``check(_:_:)`` that finds out.
  mutating func inspect(
    _ folder: FilePath, _ ledger: AcknowledgementLedger<Model>
  ) async throws -> KillFinding<Model>?

  /// Asks the program, which has just started again, what it has.
  ///
  /// A kill may come in the midst of it: ``KillConversation/ask(_:)`` then throws, and the next
  /// process is asked again.
  ///
  /// - Returns: nil when it was ``inspect(_:_:)`` that found out.
  mutating func check(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<Model>
  ) async throws -> KillFinding<Model>?
}

extension KillScript {
  public var closingLines: [String]? { nil }

  public mutating func nextCommand(
    using generator: inout SeededGenerator
  ) -> KillCommand<Operation>? {
    nil
  }

  public mutating func inspect(
    _ folder: FilePath, _ ledger: AcknowledgementLedger<Model>
  ) async throws -> KillFinding<Model>? {
    nil
  }

  public mutating func check(
    _ program: KillConversation, _ ledger: AcknowledgementLedger<Model>
  ) async throws -> KillFinding<Model>? {
    nil
  }
}

/// Lines that the program answers with one line.
public struct KillCommand<Operation: Sendable>: Sendable {
  /// Without their line feeds.
  public var lines: [String]
  /// What it changes; nil when it changes nothing that could be seen, as a compaction.
  public var operation: Operation?

  /// A command, and what it changes.
  public init(lines: [String], operation: Operation? = nil) {
    self.lines = lines
    self.operation = operation
  }
}

/// What a line of output means.
public enum KillAnswer<Operation: Sendable>: Sendable {
  /// The command is carried out, and a kill must not undo it.
  case acknowledged
  /// The command is answered, and its operation not carried out.
  case refused
  /// An operation that the program chose by itself is carried out.
  case acknowledgedByItself(Operation)
  /// No answer. Such a line does not show that the program is alive.
  case ignored
  /// An answer that must not be.
  case wrong(KillViolation)
}

/// What a script finds wrong.
public struct KillViolation: Error, Sendable, CustomStringConvertible {
  /// The kinds of what can be wrong.
  public enum Kind: Sendable {
    /// An acknowledged operation is not there.
    case lost
    /// Something is there that was never written, or half of an operation.
    case invented
    /// The program's answer is none that its protocol knows, or an error.
    case badAnswer
  }

  /// What is wrong.
  public let kind: Kind
  public let description: String

  /// - Parameters:
  ///   - kind: what is wrong.
  ///   - description: what was expected and what was seen.
  public init(_ kind: Kind, _ description: String) {
    self.kind = kind
    self.description = description
  }
}
