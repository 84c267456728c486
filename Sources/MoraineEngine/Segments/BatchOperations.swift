import MoraineFormat

/// One operation of a batch. All operations of the batch share one buffer for their bytes, so that
/// iterating over a batch counts no references.
struct BatchOperation {
  /// Number of the keyspace in the store; before the batch is committed, its number in the batch.
  var keyspace: UInt16
  let kind: RecordKind
  /// Offset of the key. A short value follows the key directly.
  let offset: Int
  let keyLength: Int
  let valueLength: Int
  /// Index among the long values; nil when the operation has no long value.
  let longValue: Int?
  /// Time at which the record expires, in milliseconds since 1970; 0 for never.
  var expiryMilliseconds: UInt64 = 0
}

/// The facts that a batch needs about a record that it replaces.
struct ReplacedRecord {
  let address: Address
  let length: Int
  let sequence: UInt64

  init(address: Address, length: Int, sequence: UInt64) {
    (self.address, self.length, self.sequence) = (address, length, sequence)
  }

  init(_ found: IndexHit) { self.init(found.record, at: found.address) }

  init(_ record: RecordReference, at address: Address) {
    self.address = address
    length = record.header.length
    sequence = record.header.sequence
  }
}

/// Operations in the order in which they are to be appended, and their bytes.
struct BatchOperations {
  /// The keyspace and the key of an operation.
  struct Place: Hashable {
    let keyspace: UInt16
    let key: Key
  }

  /// Length of the longest value that is copied into the shared buffer. Longer values stay in the
  /// caller's array: another copy costs more than it saves.
  private static let longestCopied = 4096

  private(set) var operations: [BatchOperation] = []
  private var bytes: [UInt8] = []
  private var longValues: [[UInt8]] = []
  private(set) var areDeletes = true
  /// The earliest time at which an entry expires, in milliseconds since 1970; `UInt64.max` when
  /// none does.
  private(set) var earliestExpiry = UInt64.max

  var count: Int { operations.count }

  /// - Parameter expiry: milliseconds since 1970; 0 for a record that does not expire.
  mutating func put(_ place: Place, _ value: [UInt8], expiry: UInt64 = 0) {
    let offset = bytes.count
    let isLong = value.count > Self.longestCopied
    bytes += place.key.bytes
    if isLong { longValues.append(value) } else { bytes += value }
    areDeletes = false
    if expiry != 0 { earliestExpiry = min(earliestExpiry, expiry) }
    operations.append(
      BatchOperation(
        keyspace: place.keyspace, kind: .put, offset: offset,
        keyLength: place.key.bytes.count, valueLength: value.count,
        longValue: isLong ? longValues.count - 1 : nil, expiryMilliseconds: expiry))
  }

  mutating func delete(_ place: Place) {
    operations.append(
      BatchOperation(
        keyspace: place.keyspace, kind: .delete, offset: bytes.count,
        keyLength: place.key.bytes.count, valueLength: 0, longValue: nil))
    bytes += place.key.bytes
  }

  /// Removes the operations after the first `count`.
  ///
  /// - Complexity: O(operations).
  mutating func removeAll(after count: Int) {
    guard count < operations.count else { return }
    let removed = operations[count...]
    longValues.removeLast(removed.count { $0.longValue != nil })
    bytes.removeLast(bytes.count - removed[count].offset)
    operations.removeLast(removed.count)
    areDeletes = operations.allSatisfy { $0.kind.effect != .sets }
    earliestExpiry =
      operations.lazy.map(\.expiryMilliseconds).filter { $0 != 0 }.min() ?? .max
  }

  /// Returns the keyspace and the key of an operation, as a copy that can be stored.
  func place(of index: Int) -> Place {
    let operation = operations[index]
    let key = bytes[operation.offset..<operation.offset + operation.keyLength]
    return Place(keyspace: operation.keyspace, key: Key([UInt8](key)))
  }

  /// Returns the index of the last operation on a key; nil when there is none.
  ///
  /// - Complexity: O(operations).
  func lastIndex(of place: Place) -> Int? {
    bytes.withUnsafeBytes { bytes in
      place.key.bytes.withUnsafeBytes { key in
        operations.lastIndex {
          $0.keyspace == place.keyspace && $0.keyLength == key.count
            && key.elementsEqualFast(
              UnsafeRawBufferPointer(rebasing: bytes[$0.offset..<$0.offset + $0.keyLength]))
        }
      }
    }
  }

  /// Returns the value that an operation leaves; nil for a delete.
  func value(of index: Int) -> [UInt8]? {
    let operation = operations[index]
    if operation.kind.effect != .sets { return nil }
    if let number = operation.longValue { return longValues[number] }
    let start = operation.offset + operation.keyLength
    return [UInt8](bytes[start..<start + operation.valueLength])
  }

  /// Returns the same operations with other keyspace numbers.
  func renumbered(_ number: (UInt16) -> UInt16) -> BatchOperations {
    var result = self
    for index in result.operations.indices {
      result.operations[index].keyspace = number(result.operations[index].keyspace)
    }
    return result
  }

  /// Passes all operations and their bytes to the body.
  func withPieces<Result>(
    _ body: (BatchPieces) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    try operations.withUnsafeBufferPointer { (operations) throws(StoreError) in
      try bytes.withBytes { (bytes) throws(StoreError) in
        try body(BatchPieces(operations: operations, bytes: bytes, longValues: longValues))
      }
    }
  }
}

/// The operations of a batch while they are being appended.
struct BatchPieces {
  let operations: UnsafeBufferPointer<BatchOperation>
  fileprivate let bytes: UnsafeRawBufferPointer
  fileprivate let longValues: [[UInt8]]

  var count: Int { operations.count }

  @inline(__always)
  func key(_ index: Int) -> UnsafeRawBufferPointer {
    let operation = operations[index]
    let end = operation.offset &+ operation.keyLength
    return UnsafeRawBufferPointer(rebasing: bytes[operation.offset..<end])
  }

  /// Passes the value to the body. The value of a delete is empty.
  @inline(__always)
  func withValue<Result>(
    _ index: Int, _ body: (UnsafeRawBufferPointer) throws(StoreError) -> Result
  ) throws(StoreError) -> Result {
    let operation = operations[index]
    if let number = operation.longValue { return try longValues[number].withBytes(body) }
    let start = operation.offset &+ operation.keyLength
    return try body(
      UnsafeRawBufferPointer(rebasing: bytes[start..<start &+ operation.valueLength]))
  }

  /// Returns whether two operations have the same keyspace and key.
  func areAboutTheSame(_ one: Int, _ other: Int) -> Bool {
    operations[one].keyspace == operations[other].keyspace
      && key(one).elementsEqualFast(key(other))
  }
}
