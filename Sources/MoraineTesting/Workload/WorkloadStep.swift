public import MoraineEngine

/// One put, or one delete when there is no value.
///
/// What stands before a slash in the key names the keyspace that the operation is about; the key
/// there is all of it.
public struct WorkloadOperation: Hashable, Sendable {
  /// What it is about.
  public var key: Key
  /// What is stored; nil to delete.
  public var value: [UInt8]?

  /// A put, or a delete where there is no value.
  public init(_ key: Key, _ value: [UInt8]?) {
    self.key = key
    self.value = value
  }
}

/// What a program does with its store, a step at a time.
public enum WorkloadStep: Hashable, Sendable {
  /// One operation by itself, or several as one atomic batch.
  case write([WorkloadOperation], isDurable: Bool)
  /// Puts that several tasks make at the same time, each waiting for its own durability.
  case concurrently([WorkloadOperation])
  /// Waits until everything is durable.
  case sync
  /// Rewrites the whole log.
  case compact
  /// Rewrites neighbours among the sealed segments.
  case compactSegments(Range<Int>)
  /// Reads everything and must find nothing wrong.
  case verify
  /// Takes a snapshot, which is kept for some steps and must show the same after each.
  case snapshot
  /// Closes the store and opens it again.
  case reopen
  /// The process dies, the machine lives on, and the next process opens what the files hold.
  case kill
}

extension WorkloadOperation: CustomStringConvertible {
  public var description: String {
    guard let value else { return "delete \(key)" }
    return "put \(key), \(value.count) bytes"
  }
}

extension WorkloadStep: CustomStringConvertible {
  public var description: String {
    switch self {
    case .write(let operations, let isDurable):
      operations.map(\.description).joined(separator: " and ") + (isDurable ? ", durable" : "")
    case .concurrently(let operations):
      "at once: " + operations.map(\.description).joined(separator: "; ")
    case .sync: "sync"
    case .compact: "compact"
    case .compactSegments(let range): "compact segments \(range.lowerBound)..<\(range.upperBound)"
    case .verify: "verify"
    case .snapshot: "snapshot"
    case .reopen: "close and open"
    case .kill: "kill and open"
    }
  }
}
