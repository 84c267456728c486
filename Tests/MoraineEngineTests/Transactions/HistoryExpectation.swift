import MoraineTesting

/// The operations that a store may contain after a crash, and those that it must contain.
struct HistoryExpectation: Sendable {
  /// The operations that may be present. The writes among them are present up to some number.
  var operations: [HistoryOperation] = []
  /// The operations that survive the death of the process.
  var acknowledged: Set<HistoryChecker.ID> = []
  /// The operations that survive a power failure.
  var durable: Set<HistoryChecker.ID> = []
  /// All writes up to this number survive a power failure.
  var watermark: UInt64 = 0

  init() {}

  /// - Parameter required: the operations that survive everything.
  init(required operations: [HistoryOperation]) {
    self.operations = operations
    acknowledged = Set(operations.map(\.id))
    durable = acknowledged
  }

  /// Adds the operations of a run of the store that a crash has ended.
  ///
  /// - Parameter operations: all operations of the run, with the numbers of their commits.
  mutating func add(
    _ operations: [HistoryOperation], of log: HistoryLog, _ point: CrashPoints.Point
  ) {
    let begun = log.begunIDs(at: point.after)
    let returned = log.returned.prefix(point.before.returnedCount)
    let returnedIDs = Set(returned.map(\.id))
    // A call that the crash has interrupted may have written, but has returned nothing that it has
    // read.
    self.operations += operations.filter { operation in
      operation.isWrite ? begun.contains(operation.id) : returnedIDs.contains(operation.id)
    }
    acknowledged.formUnion(returnedIDs)
    durable.formUnion(returned.filter(\.isDurable).map(\.id))
    durable.formUnion(returned.prefix(point.before.syncedCount).map(\.id))
    watermark = point.before.watermark
  }

  /// Compares a store with the expectation.
  ///
  /// - Parameter isKill: whether only the process has died, so that no acknowledged operation is
  ///   lost.
  /// - Returns: the operations that the store contains, and those that have read only these.
  /// - Throws: ``HistoryProblem``.
  func survivors(in found: ListContents, isKill: Bool) throws -> [HistoryOperation] {
    let writes = operations.filter(\.isWrite)
    let ids = found.ids
    if let other = ids.subtracting(writes.map(\.id)).min() {
      throw HistoryProblem("G1a: \(other) is present, but was not committed before the crash")
    }
    let last = writes.filter { ids.contains($0.id) }.map(\.sequence).max() ?? 0
    let firstLost = writes.map(\.sequence).filter { $0 > last }.min() ?? .max
    let survivors = operations.filter { $0.sequence < firstLost }
    for write in survivors where write.isWrite {
      if !ids.contains(write.id) {
        throw HistoryProblem(
          "a gap: \(write.id) with number \(write.sequence) is lost, and number \(last) is present")
      }
      if write.hasMark, found.marks[write.id] != write.sequence {
        throw HistoryProblem("of \(write.id) only a part is present: its mark is lost")
      }
    }
    let present = Set(survivors.map(\.id))
    if let lost = (isKill ? acknowledged : durable).subtracting(present).min() {
      throw HistoryProblem("\(lost) is lost, and was \(isKill ? "acknowledged" : "durable")")
    }
    if firstLost <= watermark {
      throw HistoryProblem("number \(firstLost) is lost, and the watermark was \(watermark)")
    }
    let lists = Self.lists(of: survivors)
    for name in Set(lists.keys).union(found.lists.keys).sorted()
    where found.lists[name] ?? [] != lists[name] ?? [] {
      throw HistoryProblem(
        "\(name) is \(found.lists[name] ?? []), and was \(lists[name] ?? []) after number \(last)")
    }
    return survivors
  }

  /// The lists that writes leave which were committed in the order of their numbers.
  private static func lists(of operations: [HistoryOperation]) -> [String: [HistoryChecker.ID]] {
    var lists: [String: [HistoryChecker.ID]] = [:]
    for write in operations.sorted(by: { $0.sequence < $1.sequence }) {
      for name in write.committed.appends { lists[name, default: []].append(write.id) }
    }
    return lists
  }
}
