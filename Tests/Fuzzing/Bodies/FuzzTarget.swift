/// What is fuzzed. Each takes any bytes, and none may lead to a trap, a hang, or a wrong answer.
public enum FuzzTarget: String, CaseIterable, Sendable {
  case record, segment, manifest, checkpoint, lz4, operations, store

  /// Runs one input.
  ///
  /// - Throws: ``Finding`` when something is wrong that did not trap by itself.
  public func run(_ input: [UInt8]) async throws {
    var bytes = FuzzInput(input)
    switch self {
    case .record: try RecordBody.run(&bytes)
    case .segment: try await SegmentBody.run(&bytes)
    case .manifest: try await ManifestBody.run(&bytes)
    case .checkpoint: try await CheckpointBody.run(&bytes)
    case .lz4: try CompressionBody.run(&bytes)
    case .operations: try await OperationsBody.run(&bytes)
    case .store: try await StoreBody.run(&bytes)
    }
  }
}

/// What an input showed to be wrong.
public struct Finding: Error, CustomStringConvertible {
  public let description: String

  init(_ description: String) {
    self.description = description
  }
}

/// Throws a ``Finding`` unless the condition holds.
func require(_ condition: Bool, _ what: @autoclosure () -> String) throws(Finding) {
  if !condition { throw Finding(what()) }
}
