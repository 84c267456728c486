/// An open store of some engine, as the workloads use it.
///
/// An engine that blocks has methods that do not suspend. Code that calls them through this
/// protocol is specialized for the engine, so the protocol adds no cost. The row "harness" measures
/// a subject that does nothing.
protocol Subject: ReaderMaker {
  func put(_ key: KeyBytes, _ value: [UInt8]) async throws
  func remove(_ key: KeyBytes) async throws
  /// Puts these as one unit, if the engine has units.
  func put(
    _ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int
  ) async throws
  /// Makes the store as small as the engine's documentation says is possible.
  func compact() async throws
  func close() async throws
  /// Readers of one moment, where the engine offers them in addition to its ordinary reads.
  var snapshots: SnapshotMaker? { get }
  /// Readers of the present state that do not use the engine's ordinary way, where it has such.
  var live: LiveMaker? { get }
  /// Bytes written to disk, which not every engine reports; nil where the engine does not.
  var writtenBytes: UInt64? { get async }
}

extension Subject {
  var snapshots: SnapshotMaker? { nil }
  var live: LiveMaker? { nil }
  var writtenBytes: UInt64? { get async { nil } }
}

protocol ReaderMaker: Sendable {
  associatedtype Reader: SubjectReader
  /// Returns a reader for one task or thread.
  func reader() async throws -> Reader
  /// Whether calls block a thread, so that many concurrent calls need many threads.
  static var blocks: Bool { get }
  /// Whether a refresh suspends, although the other calls block. A task on a thread of its own then
  /// gets its results late: while such a task waits for an actor, the runtime runs other tasks of
  /// that actor on the same thread, and a writer that does not pause keeps that thread.
  static var refreshSuspends: Bool { get }
}

extension ReaderMaker {
  static var refreshSuspends: Bool { false }
}

protocol SubjectReader {
  /// Includes the writes since the reader was made.
  mutating func refresh() async throws
  /// Returns whether the key exists with this value. Compares the value in place, if the engine
  /// allows that.
  mutating func has(_ key: KeyBytes, _ value: [UInt8]) async throws -> Bool
  mutating func contains(_ key: KeyBytes) async throws -> Bool
  /// Reads every record in the cheapest order. Returns the sum of the lengths and first bytes, so
  /// that the compiler cannot omit a read.
  mutating func scan() async throws -> ScanSum
  /// Reads records in the order of their keys, from a key on or from the first one; where
  /// `readsValues` is false, only their keys. Only engines with an order have this.
  mutating func range(from key: KeyBytes?, limit: Int, readsValues: Bool) async throws -> ScanSum
  /// Compares the values of these keys. Returns true when all are correct.
  mutating func has(
    _ numbers: ArraySlice<Int>, of data: Dataset, generation: Int
  ) async throws
    -> Bool
  mutating func close()
}

extension SubjectReader {
  mutating func has(
    _ numbers: ArraySlice<Int>, of data: Dataset, generation: Int
  ) async throws -> Bool {
    for number in numbers
    where try await !has(data.key(number), data.value(number, generation: generation)) {
      return false
    }
    return true
  }
  mutating func range(
    from key: KeyBytes?, limit: Int, readsValues: Bool
  ) async throws -> ScanSum {
    throw PeerError(description: "the engine has no order")
  }
  mutating func close() {}
}

struct ScanSum: Equatable {
  var count = 0
  var bytes = 0
  var firstBytes = 0

  @inline(__always)
  mutating func add(_ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    count += 1
    bytes &+= key.count &+ value.count
    firstBytes &+= Int(value.first ?? 0) &+ Int(key.last ?? 0)
  }

  @inline(__always)
  mutating func add(key: UnsafeRawBufferPointer) {
    count += 1
    bytes &+= key.count
    firstBytes &+= Int(key.last ?? 0)
  }

  @inline(__always)
  static func += (sum: inout ScanSum, other: ScanSum) {
    sum.count += other.count
    sum.bytes &+= other.bytes
    sum.firstBytes &+= other.firstBytes
  }
}

/// Makes stores of one engine.
protocol SubjectMaker: Sendable {
  associatedtype Made: Subject
  var engine: Report.Engine { get }
  /// - Parameter path: path of an existing folder, which will contain all files of the store.
  func open(in path: String, _ options: SubjectOptions) async throws -> Made
}

struct SubjectOptions: Sendable {
  /// Whether every commit is on the disk when it returns.
  var sync = false
  /// Whether the keys of all batches ascend, so that an engine may append them.
  var appends = false
  /// Records end after this number of seconds; 0 for never.
  var lifetimeSeconds = 0
  var expectedCount: Int
  var expectedBytes: Int

  init(_ data: Dataset, sync: Bool = false) {
    self.sync = sync
    expectedCount = data.count
    expectedBytes = data.bytes
  }
}

struct WrongAnswer: Error, CustomStringConvertible {
  let engine: String
  let row: String
  var description: String { "\(engine) gave a wrong answer in row \(row)" }
}
