/// An open store of some engine, as the workloads use it.
///
/// Those that block have methods that do not suspend: called through this protocol by code that is
/// specialized for them, they cost what they cost by themselves. The row "harness" measures one
/// that does nothing.
protocol Subject: ReaderMaker {
  func put(_ key: KeyBytes, _ value: [UInt8]) async throws
  func remove(_ key: KeyBytes) async throws
  /// Puts these as one unit, if the engine knows such.
  func put(
    _ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int
  ) async throws
  /// Makes the store as small as its documentation says it can be made.
  func compact() async throws
  func close() async throws
  /// Readers of one moment, where the engine offers them beside its ordinary reads.
  var snapshots: SnapshotMaker? { get }
  /// What the workloads ask for beyond what every engine has; nil when it has none.
  var writtenBytes: UInt64? { get async }
}

extension Subject {
  var snapshots: SnapshotMaker? { nil }
  var writtenBytes: UInt64? { get async { nil } }
}

protocol ReaderMaker: Sendable {
  associatedtype Reader: SubjectReader
  /// What one task or thread reads with.
  func reader() async throws -> Reader
  /// Whether calls block a thread, so that many at once need many threads.
  static var blocks: Bool { get }
}

protocol SubjectReader {
  /// Sees what was written since it was made.
  mutating func refresh() async throws
  /// Whether the key is there with this value. Compared where it lies, if the engine lends it.
  mutating func has(_ key: KeyBytes, _ value: [UInt8]) async throws -> Bool
  mutating func contains(_ key: KeyBytes) async throws -> Bool
  /// Every record, in the order that is cheapest; the sum of the lengths and first bytes, so that
  /// nothing that was read is left out by the compiler.
  mutating func scan() async throws -> ScanSum
  /// The values of these keys, compared; true when all are as they should be.
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
}

/// Makes stores of one engine.
protocol SubjectMaker: Sendable {
  associatedtype Made: Subject
  var engine: Report.Engine { get }
  /// - Parameter path: of a folder that is there; everything of the store lies in it.
  func open(in path: String, _ options: SubjectOptions) async throws -> Made
}

struct SubjectOptions: Sendable {
  /// Every commit is on the disk when it returns.
  var sync = false
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
