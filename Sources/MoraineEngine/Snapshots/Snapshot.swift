public import MoraineFormat
import MoraineStorage

extension Store {
  /// The state of a store at one moment. Any thread can read it, and a reader waits neither for the
  /// store nor for other readers.
  ///
  /// ```swift
  /// let snapshot = try await store.snapshot()
  /// try await withThrowingTaskGroup { group in
  ///   for part in parts { group.addTask { try sum(of: part, in: snapshot) } }  // no await
  ///   for try await sum in group { total += sum }
  /// }
  /// ```
  ///
  /// Reads are ordinary functions and do not suspend. Later writes, deletes and compactions do not
  /// change a snapshot, and closing the store does not either. While a snapshot exists, so do the
  /// segments that compaction replaces, and the index pages that change. So keep a snapshot for one
  /// piece of work, not for the run of a program. Without mappings
  /// (``Store/Configuration/IOMode/positional``) the readers of one snapshot take turns, and
  /// compaction removes replaced files only when the last snapshot that may read them is released.
  /// When the store is opened again, or another process compacts it, those files are removed at
  /// once, and reading their records throws `.corrupted`.
  public struct Snapshot: Sendable {
    /// Nil when the snapshot was taken before the store existed. The handle keeps the object alive.
    private let reference: Unmanaged<SnapshotState>?
    /// The number of the keyspace; nil when nothing had been written to the keyspace.
    let number: UInt16?
    private let handle: SnapshotHandle?

    /// Creates a snapshot of the unnamed keyspace.
    init(_ handle: SnapshotHandle?) { self.init(handle, number: 0) }

    private init(_ handle: SnapshotHandle?, number: UInt16?) {
      self.handle = handle
      self.number = number
      reference = handle.map { Unmanaged.passUnretained($0.state) }
    }

    var state: SnapshotState? { handle?.state }

    /// The count of the states that the process had read when it took the snapshot; nil when the
    /// store did not exist.
    var stateCount: UInt64? { handle?.stateCount }

    /// The time by which the snapshot hides expired entries, in milliseconds since 1970.
    var now: UInt64 { state?.now ?? 0 }

    /// Sequence number of the last operation that the snapshot shows.
    public var sequence: SequenceNumber { state?.sequence ?? .none }

    /// Number of keys at that moment, in all keyspaces together. Entries count that had expired and
    /// were not deleted.
    public var count: Int { state?.live.count ?? 0 }

    /// Returns the named keyspace at the same moment; the empty name is the unnamed keyspace.
    public func keyspace(named name: String) -> Store.Snapshot {
      Store.Snapshot(handle, number: state?.number(of: name))
    }

    /// Returns the value of a key, or nil when the key did not exist.
    ///
    /// - Throws: `.corrupted` with file and offset when the bytes differ from those that were
    ///   written; `.io`.
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

    /// Calls the body with the value of a key. No byte is copied when the value is stored
    /// uncompressed and its segment is mapped.
    ///
    /// - Returns: the result of the body, or nil when the key did not exist.
    /// - Throws: the errors of ``value(forKey:)``, and those of the body.
    public func withValue<Result>(
      forKey key: Key, _ body: (RawSpan) throws -> Result
    ) throws -> Result? {
      guard let number else { return nil }
      let stored =
        try withState { (state) throws(StoreError) in
          try key.bytes.withBytes { (bytes) throws(StoreError) in
            try state.storedValue(bytes, number)
          }
        } ?? nil
      return try stored?.read(body)
    }

    /// Returns the value of a key and the number of the operation that had set it, or nil when the
    /// key did not exist. Throws the errors of ``value(forKey:)``.
    public func versionedValue(forKey key: Key) throws(StoreError) -> VersionedValue? {
      guard let number else { return nil }
      return try withState { (state) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in
          try state.reading { () throws(StoreError) in
            let hash = state.segments.hash(bytes, number)
            guard let found = try state.found(bytes, number, hash: hash) else { return nil }
            let sequence = SequenceNumber(rawValue: found.record.header.sequence)
            try state.segments.verify(found.record, at: found.address)
            return VersionedValue(
              value: try state.segments.value(of: found.record, at: found.address),
              sequence: sequence, expiryMilliseconds: found.record.expiryMilliseconds)
          }
        }
      } ?? nil
    }

    /// Returns whether a key existed. Throws the errors of ``value(forKey:)``.
    public func contains(_ key: Key) throws(StoreError) -> Bool {
      guard let number else { return false }
      return try withState { (state) throws(StoreError) in
        try key.bytes.withBytes { (bytes) throws(StoreError) in
          try state.reading { () throws(StoreError) in
            let hash = state.segments.hash(bytes, number)
            return try state.found(bytes, number, hash: hash) != nil
          }
        }
      } ?? false
    }

    /// Calls the body with the state, without counting a reference to it. Readers on several cores
    /// would take turns at the reference count.
    ///
    /// - Returns: nil when the store did not exist.
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
}

extension Store.Snapshot {
  /// Whether both snapshots read the same tables.
  package func isSame(as other: Store.Snapshot) -> Bool { state === other.state }
}

extension Store.Snapshot {
  /// Calls the body with every live record of the keyspace, in the order of the log, until the body
  /// returns false.
  ///
  /// - Throws: the errors of ``value(forKey:)``, and those of the body.
  /// - Complexity: O(bytes of the log).
  public func scan(_ body: (Store.Entry) throws -> Bool) throws {
    guard let state, let number else { return }
    var walk = LogWalk(keyspace: number, slots: state.segments.order, now: state.now)
    while let entry = try state.next(&walk) {
      guard try body(entry) else { return }
    }
  }

  /// Calls the body with the bytes of every live record of the keyspace, in the order of the log,
  /// until the body returns false.
  ///
  /// Unlike ``scan(_:)``, this method creates no array for each key and value. Where a segment
  /// is mapped, keys and uncompressed values are borrowed in place, and compressed values from a
  /// buffer that the next record uses again.
  ///
  /// - Throws: the errors of ``value(forKey:)``, and those of the body.
  /// - Complexity: O(bytes of the log).
  public func scanSpans(
    _ body: (_ key: RawSpan, _ value: RawSpan) throws -> Bool
  ) throws {
    guard let state, let number else { return }
    // Another reader may overwrite the buffer of bytes that were read from a file.
    guard state.isMapped else {
      return try scan { try body($0.key.bytes.span.bytes, $0.value.span.bytes) }
    }
    let scratch = ScratchBuffer()
    var walk = LogWalk(keyspace: number, slots: state.segments.order, now: state.now)
    try withExtendedLifetime(state) {
      while let (address, record) = try walk.nextRecord(state.live, state.segments) {
        let value = try state.segments.borrowedValue(of: record, at: address, scratch)
        guard try body(record.key.bytes, value.bytes) else { return }
      }
    }
  }
}

extension Store.Snapshot {
  /// Returns every entry of the keyspace that has not expired, in the order in which they were
  /// stored, and the keys of those that have.
  func allEntries() throws(StoreError) -> (entries: [Store.Entry], expired: [Key]) {
    guard let state, let number else { return ([], []) }
    var walk = LogWalk(keyspace: number, slots: state.segments.order, now: 0)
    var entries: [Store.Entry] = []
    var expired: [Key] = []
    while let (entry, hasExpired) = try state.nextOfAll(&walk) {
      if hasExpired { expired.append(entry.key) } else { entries.append(entry) }
    }
    entries.sortBySequence()
    return (entries, expired)
  }
}

extension SnapshotState {
  func next(_ walk: inout LogWalk) throws(StoreError) -> Store.Entry? {
    try reading { () throws(StoreError) in try walk.next(live, segments) }
  }

  /// Returns the next entry of a walk that leaves none out, and whether the entry has expired.
  fileprivate func nextOfAll(
    _ walk: inout LogWalk
  ) throws(StoreError) -> (entry: Store.Entry, hasExpired: Bool)? {
    try reading { () throws(StoreError) in
      guard let (address, record) = try walk.nextRecord(live, segments) else { return nil }
      return (try segments.entry(of: record, at: address), record.hasExpired(at: now))
    }
  }
}

extension Store.Snapshot {
  /// Returns the values of many keys, in the order of the keys, with nil for each key that did not
  /// exist.
  ///
  /// This is faster than one call for each key: the buckets and records of a group of keys are
  /// fetched from memory together.
  ///
  /// - Throws: the errors of ``value(forKey:)``, for the first key that cannot be read.
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

  /// About the number of loads that a core has in flight at a time.
  private static let groupCount = 16
}

extension SnapshotState {
  /// Hashes the keys, and prefetches their buckets and then the records that the buckets refer to.
  fileprivate func fetch(_ keys: ArraySlice<Key>, _ keyspace: UInt16, _ hashes: inout [UInt64]) {
    hashes.removeAll(keepingCapacity: true)
    for key in keys {
      let hash = key.bytes.withBytes { segments.hash($0, keyspace) }
      live.prefetch(hash)
      hashes.append(hash)
    }
    // A look-up in a tree fetches what it needs by itself.
    if live.isOrdered(keyspace) { return }
    for hash in hashes {
      var candidates = live.index.candidates(hash)
      guard let address = live.index.next(&candidates)?.address else { continue }
      guard address.slot < segments.count, let base = segments.views[address.slot].base else {
        continue
      }
      CPU.prefetch(base + address.offset)
    }
  }
}
