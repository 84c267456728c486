public import MoraineEngine

/// A put, or a delete if there is no value.
///
/// The part of the key before a slash names the keyspace. The key in that keyspace is the whole
/// key.
public struct WorkloadOperation: Hashable, Sendable {
  /// The key, with the name of its keyspace.
  public var key: Key
  /// The value to store; nil to delete.
  public var value: [UInt8]?

  /// Creates a put, or a delete if there is no value.
  public init(_ key: Key, _ value: [UInt8]?) {
    self.key = key
    self.value = value
  }
}

/// A step of a program that uses a store.
public enum WorkloadStep: Hashable, Sendable {
  /// One operation alone, or several as an atomic batch.
  case write([WorkloadOperation], isDurable: Bool)
  /// Puts by several concurrent tasks, each of which waits until its put is durable.
  case concurrently([WorkloadOperation])
  /// A wait until all operations are durable.
  case sync
  /// A compaction of the whole log.
  case compact
  /// A compaction of neighbouring sealed segments.
  case compactSegments(Range<Int>)
  /// A verification, which must find no problem.
  case verify
  /// A snapshot, which is kept for some steps and must show the same contents after each.
  case snapshot
  /// A close, and an opening.
  case reopen
  /// The death of the process. The machine stays up, and the next process opens the files.
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
