/// Targets of fuzzing. Each takes any bytes; no input may lead to a trap, a hang, or a wrong
/// answer.
public enum FuzzTarget: String, CaseIterable, Sendable {
  case record, segment, manifest, checkpoint, lz4, operations, store, ordered, clustered

  /// Runs one input.
  ///
  /// - Throws: ``Finding`` when the input shows a fault that does not trap.
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
    case .ordered: try await OrderedBody.run(&bytes)
    case .clustered: try await ClusteredBody.run(&bytes)
    }
  }
}

/// The fault that an input showed.
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
