public import MoraineFormat
import MoraineStorage

/// A store as it was at one moment, to be read from any thread without waiting for the store or for
/// another reader.
///
/// ```swift
/// let snapshot = try await store.snapshot()
/// try await withThrowingTaskGroup { group in
///   for part in parts { group.addTask { try sum(of: part, in: snapshot) } }  // no await
///   for try await sum in group { total += sum }
/// }
/// ```
///
/// Reads are ordinary functions and do not suspend. What is written, deleted or compacted after the
/// moment changes nothing, nor does closing the store. As long as a snapshot is kept, so are the
/// segments that compaction replaces, and the pages of the index that change: keep it for a piece
/// of work, not for a program's life. Without mappings (``Configuration/IOMode/positional``)
/// readers of one snapshot take turns, and files that are compacted away are removed when the last
/// snapshot that may read them is let go; when the store is opened again, or another process
/// compacts it, they go at once, and reading what was in them is `.corrupted`.
public struct Snapshot: Sendable {
  /// Nil when there was no store yet. What it refers to is kept by the handle.
  private let reference: Unmanaged<SnapshotState>?
  /// Nil when nothing had been written to it.
  let number: UInt16?
  private let handle: SnapshotHandle?

  /// Of the unnamed keyspace.
  init(_ handle: SnapshotHandle?) { self.init(handle, number: 0) }

  private init(_ handle: SnapshotHandle?, number: UInt16?) {
    self.handle = handle
    self.number = number
    reference = handle.map { Unmanaged.passUnretained($0.state) }
  }

  var state: SnapshotState? { handle?.state }

  /// The last operation that it shows.
  public var sequence: SequenceNumber { state?.sequence ?? .none }

  /// How many keys there were, in all keyspaces together.
  public var count: Int { state?.index.count ?? 0 }

  /// The same moment, of a named keyspace; empty for the unnamed one.
  public func keyspace(_ name: String) -> Snapshot {
    Snapshot(handle, number: state?.number(of: name))
  }

  /// The value of a key, or nil when the key was not there.
  ///
  /// - Throws: `.corrupted` with file and offset when the bytes are not what was written, `.io`.
  /// - Complexity: O(key + value).
  public func value(forKey key: Key) throws(StoreError) -> [UInt8]? {
    guard let number else { return nil }
    return try withState { (state) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try state.reading { () throws(StoreError) in
          try state.value(bytes, number, hash: state.segments.hash(bytes, number))
        }
      }
    } ?? nil
  }

  /// Lends a value to the body; where it is stored as it is and the segment is mapped, no byte is
  /// copied.
  ///
  /// - Returns: what the body returns, or nil when the key was not there.
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  public func withValue<Result>(
    forKey key: Key, _ body: (RawSpan) throws -> Result
  ) throws -> Result? {
    guard let number else { return nil }
    let stored =
      try withState { (state) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in try state.storedValue(bytes, number)
        }
      } ?? nil
    switch stored {
    case nil: return nil
    case .inPlace(let bytes, let mapping):
      defer { withExtendedLifetime(mapping) {} }
      return try body(bytes.bytes)
    case .copy(let value): return try body(value.span.bytes)
    }
  }

  /// Whether a key was there. Throws as ``value(forKey:)``.
  public func contains(_ key: Key) throws(StoreError) -> Bool {
    guard let number else { return false }
    return try withState { (state) throws(StoreError) in
      try key.bytes.withBytes { (bytes) throws(StoreError) in
        try state.reading { () throws(StoreError) in
          let hash = state.segments.hash(bytes, number)
          return try state.segments.find(bytes, number, hash: hash, in: state.index) != nil
        }
      }
    } ?? false
  }

  /// Lends the state without counting a reference to it: readers on several cores would take turns
  /// at the count.
  ///
  /// - Returns: nil when there was no store.
  @inline(__always)
  private func withState<Value>(
    _ body: (SnapshotState) throws(StoreError) -> Value
  ) throws(StoreError) -> Value? {
    guard let reference else { return nil }
    defer { withExtendedLifetime(handle) {} }
    let result: Result<Value, StoreError> = reference._withUnsafeGuaranteedRef { state in
      do throws(StoreError) { return .success(try body(state)) } catch { return .failure(error) }
    }
    return try result.get()
  }
}

extension Snapshot {
  /// Whether both read the same tables.
  package func isSame(as other: Snapshot) -> Bool { state === other.state }
}

extension Snapshot {
  /// Calls the body with every record, in the order of the log, until it answers false.
  ///
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  /// - Complexity: O(bytes of the log).
  public func forEach(_ body: (Entry) throws -> Bool) throws {
    guard let state, let number else { return }
    var walk = LogWalk(keyspace: number, slots: state.segments.order)
    while let entry = try state.next(&walk) {
      guard try body(entry) else { return }
    }
  }

  /// Lends every record to the body, in the order of the log, until it answers false.
  ///
  /// As ``forEach(_:)`` without an array for each key and value: where a segment is mapped, keys
  /// and what is stored as it is are lent where they lie, and what is compressed from a buffer that
  /// the next record uses again.
  ///
  /// - Throws: as ``value(forKey:)``, and what the body throws.
  /// - Complexity: O(bytes of the log).
  public func forEachSpan(
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    guard let state, let number else { return }
    // Bytes that were read into a buffer are another reader's in the next moment.
    guard state.isMapped else {
      return try forEach { try body($0.key.bytes.span.bytes, $0.value.span.bytes) }
    }
    let scratch = ScratchBuffer()
    var walk = LogWalk(keyspace: number, slots: state.segments.order)
    try withExtendedLifetime(state) {
      while let (address, record) = try walk.nextRecord(state.index, state.segments) {
        let value = try state.segments.borrowedValue(of: record, at: address, scratch)
        guard try body(record.key.bytes, value.bytes) else { return }
      }
    }
  }
}

extension SnapshotState {
  fileprivate func next(_ walk: inout LogWalk) throws(StoreError) -> Entry? {
    try reading { () throws(StoreError) in try walk.next(index, segments) }
  }
}

extension Snapshot {
  /// The values of many keys, in the order of the keys: nil where a key was not there.
  ///
  /// Faster than one by one: what the keys need is fetched from memory for a group of them at a
  /// time.
  ///
  /// - Throws: as ``value(forKey:)``, for the first key that cannot be read.
  /// - Complexity: O(keys + values).
  public func values(forKeys keys: [Key]) throws(StoreError) -> [[UInt8]?] {
    guard let state, let number else { return Array(repeating: nil, count: keys.count) }
    return try state.reading { () throws(StoreError) in
      var result: [[UInt8]?] = []
      result.reserveCapacity(keys.count)
      var hashes: [UInt64] = []
      for start in stride(from: 0, to: keys.count, by: Self.groupCount) {
        let group = keys[start..<min(start + Self.groupCount, keys.count)]
        state.fetch(group, number, &hashes)
        for (key, hash) in zip(group, hashes) {
          result.append(
            try key.bytes.withBytes { (bytes) throws(StoreError) in
              try state.value(bytes, number, hash: hash)
            })
        }
      }
      return result
    }
  }

  /// As many loads as a core has under way, about.
  private static let groupCount = 16
}

extension SnapshotState {
  /// Hashes keys, and fetches their buckets and then the records that these name.
  fileprivate func fetch(_ keys: ArraySlice<Key>, _ keyspace: UInt16, _ hashes: inout [UInt64]) {
    hashes.removeAll(keepingCapacity: true)
    for key in keys {
      let hash = key.bytes.withBytes { segments.hash($0, keyspace) }
      index.prefetch(hash)
      hashes.append(hash)
    }
    for hash in hashes {
      var candidates = index.candidates(hash)
      guard let address = index.next(&candidates)?.address else { continue }
      guard address.slot < segments.count, let base = segments.views[address.slot].base else {
        continue
      }
      CPU.prefetch(base + address.offset)
    }
  }
}
