import MoraineEngine

/// The parameters of a seeded workload: the number of keys, the length of the values, and how often
/// each kind of step occurs.
public struct WorkloadShape: Hashable, Sendable {
  /// The relative frequency of each kind of step.
  public enum Kind: Hashable, Sendable, CaseIterable {
    /// A put.
    case put
    /// A delete.
    case delete
    /// A batch of two to five operations.
    case batch
    /// Puts by several concurrent tasks.
    case concurrently
    /// A sync of the log.
    case sync
    /// A compaction of the whole log.
    case compact
    /// A compaction of some neighbouring segments.
    case compactSegments
    /// A verification, which must find no problem.
    case verify
    /// A close, and an opening.
    case reopen
    /// The death of the process; the machine stays up.
    case kill
    /// A snapshot, which is kept for some steps.
    case snapshot
  }

  /// Number of steps of a workload. The store is closed and opened again after the last step.
  public var stepCount = 16
  /// Number of keys that a workload writes.
  public var keyCount = 9
  /// Number of keyspaces with these keys, including the unnamed one.
  public var keyspaceCount = 1
  /// Length of most values, in bytes.
  public var valueLengthBytes: ClosedRange<Int> = 0...60
  /// Every value whose number is a multiple of this one is ten times as long; 0 for no long values.
  public var longValuePeriod: UInt64 = 0
  /// Number of durable writes in ten writes.
  public var durableTenths: UInt64 = 3
  /// Whether values resemble each other, so that they compress with a dictionary.
  public var isText = false
  /// The relative frequency of each kind of step.
  public var weights: [Kind: UInt64] = [.put: 6, .delete: 2, .batch: 2]

  /// Creates a shape of puts, deletes and batches of short values.
  public init() {}

  /// Returns the steps that a seed selects. The last step closes the store or kills the process,
  /// and opens the store again.
  public func steps(seed: UInt64) -> [WorkloadStep] {
    var random = SeededGenerator(seed: seed)
    var steps = (0..<stepCount).map { _ in step(&random) }
    steps.append(random.next() % 2 == 0 ? .reopen : .kill)
    return steps
  }

  private func step(_ random: inout SeededGenerator) -> WorkloadStep {
    let isDurable = random.next() % 10 < durableTenths
    switch kind(&random) {
    case .put: return .write([put(&random)], isDurable: isDurable)
    case .delete: return .write([WorkloadOperation(key(&random), nil)], isDurable: isDurable)
    case .batch:
      let operations = (0..<2 + random.next() % 4).map { _ in
        random.next() % 4 == 0 ? WorkloadOperation(key(&random), nil) : put(&random)
      }
      return .write(operations, isDurable: isDurable)
    case .concurrently:
      // The keys differ, so every order of the puts gives the same result.
      return .concurrently(
        (0..<2 + random.next() % 4).map { task in
          WorkloadOperation(Key("task \(task)"), value(&random))
        })
    case .sync: return .sync
    case .compact: return .compact
    case .compactSegments:
      let start = Int(random.next() % 5)
      return .compactSegments(start..<start + 1 + Int(random.next() % 4))
    case .verify: return .verify
    case .snapshot: return .snapshot
    case .reopen: return .reopen
    case .kill: return .kill
    }
  }

  private func kind(_ random: inout SeededGenerator) -> Kind {
    let total = Kind.allCases.reduce(0) { $0 + weights[$1, default: 0] }
    guard total > 0 else { return .put }
    var rest = random.next() % total
    for kind in Kind.allCases {
      let weight = weights[kind, default: 0]
      if rest < weight { return kind }
      rest -= weight
    }
    return .put
  }

  private func key(_ random: inout SeededGenerator) -> Key {
    let number = random.next() % UInt64(max(1, keyCount))
    let keyspace = number % UInt64(max(1, keyspaceCount))
    return keyspace == 0 ? Key("key \(number)") : Key("space \(keyspace)/key \(number)")
  }

  private func put(_ random: inout SeededGenerator) -> WorkloadOperation {
    WorkloadOperation(key(&random), value(&random))
  }

  private func value(_ random: inout SeededGenerator) -> [UInt8] {
    let span = UInt64(valueLengthBytes.upperBound - valueLengthBytes.lowerBound + 1)
    var length = valueLengthBytes.lowerBound + Int(random.next() % span)
    if longValuePeriod > 0, random.next() % longValuePeriod == 0 { length *= 10 }
    if !isText { return (0..<length).map { _ in UInt8(truncatingIfNeeded: random.next()) } }
    let words = ["{\"name\":\"", "\",\"isActive\":true", ",\"city\":\"Chamonix\"", ",\"count\":"]
    var text: [UInt8] = []
    while text.count < length {
      text += Array(words[Int(random.next() % 4)].utf8) + Array("\(random.next() % 97)".utf8)
    }
    return Array(text.prefix(length))
  }
}
