#if Command
  public import SystemPackage

  /// The commands for a program, the meaning of its answers, and the check of its state.
  ///
  /// The program under test is one of two kinds:
  /// - It reads commands of one or more lines, and answers each with one line. The script makes the
  ///   commands in ``nextCommand(using:)``.
  /// - It works by itself, and prints a line for each operation that it has acknowledged.
  ///   ``nextCommand(using:)`` returns nil, and ``meaning(of:to:_:)`` returns
  ///   ``KillAnswer/acknowledgedByItself(_:)``.
  ///
  /// A script of a program that answers `add N` with `ok`, and `list` with all its numbers:
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
  /// A line counts when it is complete, including its line feed, so the program must not buffer its
  /// output.
  ///
  /// After each kill at least one of ``inspect(_:_:)`` and ``check(_:_:)`` must return a finding.
  /// Both throw ``KillViolation`` for a state that a kill must not cause.
  public protocol KillScript: Sendable {
    /// Model of the program's data, in memory.
    associatedtype Model: KillModel
    /// Operation that changes the model.
    typealias Operation = Model.Operation

    /// State of an empty folder.
    var model: Model { get }

    /// Lines that ask the program for an orderly end; an empty array closes its input. Nil for a
    /// program that ends only when it is killed.
    var closingLines: [String]? { get }

    /// Returns the next command, or nil for a program that works by itself. Random choices come
    /// from the generator, so that the seed repeats them.
    mutating func nextCommand(using generator: inout SeededGenerator) -> KillCommand<Operation>?

    /// Returns the meaning of a line of the program's standard output.
    ///
    /// - Parameters:
    ///   - line: the line, without its line feed.
    ///   - command: the oldest command without an answer; nil when every command is answered.
    ///   - ledger: its model contains every operation that was sent before the command.
    mutating func meaning(
      of line: String, to command: KillCommand<Operation>?, _ ledger: AcknowledgementLedger<Model>
    ) -> KillAnswer<Operation>

    /// Examines the folder while no process runs, before the program starts again.
    ///
    /// - Returns: the finding; nil when ``check(_:_:)`` makes it.
    mutating func inspect(
      _ folder: FilePath, _ ledger: AcknowledgementLedger<Model>
    ) async throws -> KillFinding<Model>?

    /// Asks the program, which has just started again, for its contents.
    ///
    /// A kill may interrupt the check: ``KillConversation/ask(_:)`` then throws, and the next
    /// process is asked again.
    ///
    /// - Returns: the finding; nil when ``inspect(_:_:)`` made it.
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

  /// A command: lines that the program answers with one line.
  public struct KillCommand<Operation: Sendable>: Sendable {
    /// Lines of the command, without their line feeds.
    public var lines: [String]
    /// Operation that the command performs; nil when it changes no visible state, for example a
    /// compaction.
    public var operation: Operation?

    /// Creates a command, and the operation that it performs.
    public init(lines: [String], operation: Operation? = nil) {
      self.lines = lines
      self.operation = operation
    }
  }

  /// The meaning of a line of output.
  public enum KillAnswer<Operation: Sendable>: Sendable {
    /// The command is performed, and a kill must not undo it.
    case acknowledged
    /// The command is answered, and its operation is not performed.
    case refused
    /// An operation that the program chose by itself is performed.
    case acknowledgedByItself(Operation)
    /// The line is not an answer. It is not a sign of life, either.
    case ignored
    /// The answer is not permitted.
    case wrong(KillViolation)
  }

  /// A violation that a script found.
  public struct KillViolation: Error, Sendable, CustomStringConvertible {
    /// The kinds of violations.
    public enum Kind: Sendable {
      /// An acknowledged operation does not exist.
      case lost
      /// The store contains data that was never written, or a part of an operation.
      case invented
      /// The answer is an error, or the program's protocol does not contain it.
      case badAnswer
    }

    /// Description of the violation.
    public let kind: Kind
    public let description: String

    /// - Parameters:
    ///   - kind: kind of the violation.
    ///   - description: the expected and the found state.
    public init(_ kind: Kind, _ description: String) {
      self.kind = kind
      self.description = description
    }
  }
#endif
