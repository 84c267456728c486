import MoraineFormat

/// Values of any length, which are written and read in pieces: a program needs memory for some
/// pieces, whatever the length of a value.
///
/// ```swift
/// let films = try store.largeValues(named: "films")
/// try await films.set(upload, forKey: "one")  // any sequence of bytes, asynchronously
/// if let film = try await films.value(forKey: "one") {
///   for try await piece in film { try await response.write(piece) }
/// }
/// ```
///
/// - A value is whole or absent: its pieces become visible together, when the last one is written,
///   and replace the value that the key had. After a crash the key has the old value or the new
///   one.
/// - A reader sees the value of one moment to its end, also when the key is set or removed in the
///   meantime. Its pieces use space as long as the ``LargeValue`` exists.
/// - An entry of a key that is no large value can be replaced and removed. The pieces that it may
///   once have named are not known, and stay. A record that is damaged on the disk is an error, as
///   in each ordered keyspace.
/// - A reader checks the length and the checksum of the whole value, besides the checksum of each
///   piece.
/// - Pieces of a value that was never completed, because the process died for example, are removed
///   by a later write, at the earliest an hour after bytes were appended last. A clock that is set
///   while the store is open takes no pieces from a writer, and delays the removal. A process that
///   opens a shared store believes its clock: if that was set after another process appended bytes,
///   the hour may be shorter.
///
/// The values of a name are in two keyspaces: the one with the name has a record of 37 bytes for
/// each key, and `moraine.pieces/` and the name has the pieces. Both are ordered. Backups,
/// archives, snapshots and other processes see them as they see all entries. An entry that a
/// program writes there itself is no large value.
public struct LargeValues: Sendable {
  /// The number of bytes of each piece but the last one.
  public static let pieceBytes = 256 << 10
  /// The shortest time after its last append at which a value that is not complete counts as
  /// abandoned.
  static let patienceMilliseconds: UInt64 = 3_600_000
  /// The age at which an append renews the claim, so that few appends write. At its last append, a
  /// writer may have had a claim of this age.
  static let renewalMilliseconds: UInt64 = 450_000
  /// How far a claim may be ahead of the clock. A clock that was wrong has set a claim of a later
  /// time, and a writer at work has renewed such a claim since.
  static let leadMilliseconds: UInt64 = 86_400_000

  /// The beginning of the name of each keyspace with pieces.
  fileprivate static let piecesPrefix = "moraine.pieces/"

  let store: Store
  /// A record for each key.
  let headers: Keyspace
  let pieces: Keyspace
  /// When abandoned values were looked for.
  private let cleaning = LastTime()

  fileprivate init(_ store: Store, _ name: String) throws(StoreError) {
    self.store = store
    headers = try store.orderedKeyspace(named: name)
    pieces = try store.orderedKeyspace(named: Self.piecesPrefix + name)
  }
}

extension Store {
  /// Returns the large values with a name. Reads and writes nothing.
  ///
  /// - Throws: `.keyTooLarge` when the name is longer than ``Keyspace/nameLengthBytes`` less 15.
  public nonisolated func largeValues(named name: String) throws(StoreError) -> LargeValues {
    try LargeValues(self, name)
  }
}

extension LargeValues {
  /// Writes a value from a sequence of its parts, of any lengths, and replaces the value of the
  /// key.
  ///
  /// - Parameters:
  ///   - parts: the bytes. When the sequence throws, or the task is cancelled before the sequence
  ///     has ended, the key keeps its old value.
  ///   - key: the key.
  ///   - durability: what to wait for after the last piece; nil for the configuration's durability.
  ///     Then all pieces are as durable as the value.
  /// - Returns: the sequence number at which the value became visible.
  /// - Throws: the errors of the sequence; `.cancelled`; the errors of ``Writer/append(_:)`` and
  ///   ``Writer/commit(durability:)``.
  /// - Complexity: O(value), and memory for some pieces.
  @discardableResult
  public nonisolated(nonsending) func set<Parts: AsyncSequence>(
    _ parts: Parts, forKey key: Key, durability: Durability? = nil
  ) async throws -> SequenceNumber where Parts.Element: Sequence<UInt8> {
    var writer = try await writer(forKey: key)
    do {
      for try await part in parts { try await writer.append(part) }
      // Many sequences end early when their task is cancelled, so the value may not be whole.
      if Task.isCancelled {
        throw StoreError(.cancelled, "the task was cancelled before the value was whole")
      }
    } catch {
      let cause = error
      // What cannot be removed now is removed later, as after a crash.
      do throws(StoreError) { try await writer.cancel() } catch {}
      throw cause
    }
    return try await writer.commit(durability: durability)
  }

  /// Begins a value whose parts the program writes one after the other.
  ///
  /// - Throws: the errors of ``Store/set(_:forKey:durability:)``; `.keyTooLarge` for a key of more
  ///   than `StoreLimits.orderedKeyLengthBytes`.
  public nonisolated(nonsending) func writer(forKey key: Key) async throws(StoreError) -> Writer {
    guard key.bytes.count <= StoreLimits.orderedKeyLengthBytes else {
      throw StoreError(
        .keyTooLarge,
        "the key has \(key.bytes.count) bytes; the limit is \(StoreLimits.orderedKeyLengthBytes)")
    }
    if cleaning.hasPassed(Self.patienceMilliseconds, at: max(1, store.clock.milliseconds)) {
      // The error belongs to other values, and a later writer tries again.
      do throws(StoreError) { try await removeUnfinished() } catch {}
    }
    let id = LargeValueID()
    // The store notices the time of this claim, also where the clock is wrong and corrected later.
    await store.boundsOfNow()
    // A claim of zero is that of pieces which may be removed.
    let now = max(1, store.clock.milliseconds)
    let claim = claim(now)
    try await pieces.set(claim, forKey: id.claimKey, durability: Durability.none)
    return Writer(self, key, id, claim: claim, of: now)
  }

  /// Returns the value of a key at this moment, whose pieces are then read; nil when the key has
  /// none.
  ///
  /// - Throws: the errors of ``Store/snapshot()`` and ``Store/Snapshot/value(forKey:)``;
  ///   `.newerFormat`; `.corrupted` when the entry of the key is no large value.
  public nonisolated(nonsending) func value(
    forKey key: Key
  ) async throws(StoreError) -> LargeValue? {
    let snapshot = try await store.snapshot()
    guard let bytes = try snapshot.keyspace(named: headers.name).value(forKey: key) else {
      return nil
    }
    return LargeValue(
      key: key, header: try LargeValueHeader(bytes, of: key),
      pieces: snapshot.keyspace(named: pieces.name))
  }

  /// Returns whether a key has a value.
  ///
  /// - Throws: the errors of ``Store/contains(_:)``.
  public nonisolated(nonsending) func contains(_ key: Key) async throws(StoreError) -> Bool {
    try await headers.contains(key)
  }

  /// Returns the keys of a range that have values, in their order.
  ///
  /// - Throws: the errors of ``Keyspace/keys(in:order:limit:)``.
  public nonisolated(nonsending) func keys(
    in range: some KeyRangeConvertible = .all, order: KeyOrder = .ascending, limit: Int
  ) async throws(StoreError) -> [Key] {
    try await headers.keys(in: range.keyRange, order: order, limit: limit)
  }

  /// Removes the value of a key.
  ///
  /// - Returns: whether the key had a value. An entry that is no large value is removed too; pieces
  ///   that it may have named stay.
  /// - Throws: the errors of ``Store/removeValue(forKey:durability:)``; `.newerFormat`.
  @discardableResult
  public nonisolated(nonsending) func removeValue(
    forKey key: Key, durability: Durability? = nil
  ) async throws(StoreError) -> Bool {
    let old = try await store.removeLargeValue(of: self, forKey: key, durability)
    if let id = old.id { try await removePieces(of: id) }
    return old.exists
  }

  /// Removes the pieces of values that were not completed and to which nothing was appended for an
  /// hour, or up to 7.5 minutes longer, and what crashes have left of values that were removed. A
  /// write does this as well, once an hour.
  ///
  /// When the clock is set while the store is open, the store believes the new time an hour after
  /// the first call that has noticed it. Until then, only those pieces are removed that are old by
  /// both times. Pieces of a writer whose clock was more than a day ahead are removed too, unless
  /// the writer appends something after its clock was corrected.
  ///
  /// - Returns: the number of such values.
  /// - Throws: the first error, after the others were tried: the errors of
  ///   ``Keyspace/entries(in:order:limit:)`` and ``Keyspace/removeAll(in:durability:)``.
  /// - Complexity: O(values that are being written + pieces that are removed).
  @discardableResult
  public nonisolated(nonsending) func removeUnfinished() async throws(StoreError) -> Int {
    let oldest = Self.patienceMilliseconds + Self.renewalMilliseconds
    let (earliest, latest) = await store.boundsOfNow()
    var count = 0
    var failure: StoreError?
    var range = KeyRange.prefix(LargeValueID.claimPrefix)
    while true {
      let claims = try await pieces.entries(in: range, limit: 100).entries
      guard let last = claims.last else {
        if let failure { throw failure }
        return count
      }
      range = KeyRange(from: last.key.successor, upTo: range.upperBound)
      for entry in claims {
        guard let id = LargeValueID(claimKey: entry.key), let time = time(of: entry.value),
          time == 0 || time < earliest && earliest - time > oldest
            || time > latest && time - latest > Self.leadMilliseconds
        else { continue }
        do throws(StoreError) {
          if try await abandon(id, claim: entry.value) { count += 1 }
        } catch {
          failure = failure ?? error
        }
      }
    }
  }

  /// Removes the pieces of a value, unless its writer has gone on or has completed it.
  ///
  /// - Returns: whether the claim was the one that the pieces still had.
  @discardableResult
  nonisolated(nonsending) func abandon(
    _ id: LargeValueID, claim old: [UInt8]
  ) async throws(StoreError) -> Bool {
    // From here on a writer that is still there after all adds no piece, and cannot complete its
    // value.
    let taken = try await pieces.set(
      claim(0), forKey: id.claimKey, if: .value(old), durability: Durability.none)
    guard taken != nil else { return false }
    try await removePieces(of: id)
    return true
  }

  /// Removes the pieces of a value that has no header, and then its claim.
  nonisolated(nonsending) func removePieces(of id: LargeValueID) async throws(StoreError) {
    _ = try await pieces.removeAll(in: .prefix(id.piecePrefix), durability: Durability.none)
    _ = try await pieces.removeValue(forKey: id.claimKey, durability: Durability.none)
  }

  /// Returns the value of a claim: the time at which its writer has set it, in milliseconds since
  /// 1970; 0 for pieces that no reader will ask for.
  func claim(_ milliseconds: UInt64) -> [UInt8] {
    var writer = ByteWriter()
    writer.append(milliseconds)
    return writer.bytes
  }

  private func time(of claim: [UInt8]) -> UInt64? {
    guard claim.count == 8 else { return nil }
    return claim.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}

// Salvaging.
extension LargeValues {
  /// Removes the claims of pieces that belong to values, as the commits of the values did.
  ///
  /// - Throws: `.newerFormat`, because such a value may need pieces that have a claim; the errors
  ///   of ``Keyspace/entries(in:order:limit:)`` and ``Keyspace/removeValue(forKey:durability:)``.
  fileprivate nonisolated(nonsending) func removeClaimsOfValues() async throws(StoreError) {
    let first = try await pieces.first(in: .prefix(LargeValueID.claimPrefix))
    guard first != nil else { return }
    var page = try await headers.entries(limit: 100)
    while true {
      for entry in page.entries {
        let id: LargeValueID
        do throws(StoreError) { id = try LargeValueHeader(entry.value, of: entry.key).id } catch {
          // An entry that is no large value names no pieces.
          guard error.code == .corrupted else { throw error }
          continue
        }
        _ = try await pieces.removeValue(forKey: id.claimKey, durability: Durability.none)
      }
      guard let next = page.next else { return }
      page = try await headers.entries(after: next, limit: 100)
    }
  }
}

extension Store {
  /// Removes the claims of all pieces that belong to large values. After a salvage, such claims
  /// exist where the records of their removal are lost; a later write would remove the pieces.
  ///
  /// - Throws: `.newerFormat`, and the errors of a read and of a write.
  /// - Complexity: O(large values), if any claim exists.
  func removeClaimsOfLargeValues() async throws(StoreError) {
    let names = try await keyspaceStatistics().filter(\.isOrdered).map(\.name)
    let known = Set(names)
    for name in names where known.contains(LargeValues.piecesPrefix + name) {
      try await largeValues(named: name).removeClaimsOfValues()
    }
  }
}

extension Store {
  /// Returns the earliest and the latest time that may be the right one. See ``ClockBounds``.
  @discardableResult
  fileprivate func boundsOfNow() -> (earliest: UInt64, latest: UInt64) {
    clockBounds.now(clock)
  }

  /// Adds a piece to those of a writer. A piece always has a claim or belongs to a value.
  ///
  /// - Throws: `.cancelled` when the pieces were removed because the writer had paused too long.
  fileprivate func addPiece(
    _ bytes: [UInt8], _ number: UInt32, to id: LargeValueID, of values: LargeValues,
    forKey key: Key, claim: [UInt8]
  ) async throws(StoreError) {
    _ = try await writeUnit(Durability.none) { (batch) throws(StoreError) in
      guard try batch.value(forKey: id.claimKey, in: values.pieces) == claim else {
        throw LargeValues.Writer.lost(key)
      }
      try batch.set(bytes, forKey: id.pieceKey(number), in: values.pieces)
    }
  }

  /// Makes the pieces of a writer the value of its key.
  ///
  /// - Returns: the number of the commit, and the value that was replaced.
  /// - Throws: `.cancelled` when the pieces were removed because the writer had paused too long.
  fileprivate func commitLargeValue(
    _ header: LargeValueHeader, of values: LargeValues, forKey key: Key, claim: [UInt8],
    _ durability: Durability?
  ) async throws(StoreError) -> (sequence: SequenceNumber, old: LargeValueID?) {
    var old: LargeValueID?
    let sequence = try await writeUnit(durability) { (batch) throws(StoreError) in
      guard try batch.value(forKey: header.id.claimKey, in: values.pieces) == claim else {
        throw LargeValues.Writer.lost(key)
      }
      old = try values.giveUpValue(forKey: key, &batch).id
      try batch.removeValue(forKey: header.id.claimKey, in: values.pieces)
      try batch.set(header.bytes, forKey: key, in: values.headers)
    }
    guard let sequence else { fatalError("a batch with a put has written nothing") }
    return (sequence, old)
  }

  /// Removes the value of a key.
  ///
  /// - Returns: whether the key had an entry, and the pieces of the value.
  fileprivate func removeLargeValue(
    of values: LargeValues, forKey key: Key, _ durability: Durability?
  ) async throws(StoreError) -> (exists: Bool, id: LargeValueID?) {
    var old: (exists: Bool, id: LargeValueID?) = (false, nil)
    _ = try await writeUnit(durability) { (batch) throws(StoreError) in
      old = try values.giveUpValue(forKey: key, &batch)
      if old.exists { try batch.removeValue(forKey: key, in: values.headers) }
    }
    return old
  }
}

extension LargeValues {
  /// Marks the pieces of a key's value as pieces that may be removed.
  ///
  /// - Returns: whether the key has an entry, and the pieces of its value. The pieces are not known
  ///   when the entry is no large value; they stay. Otherwise such an entry could never be
  ///   replaced.
  /// - Throws: `.newerFormat`; the errors of ``WriteBatch/value(forKey:in:)``.
  fileprivate func giveUpValue(
    forKey key: Key, _ batch: inout WriteBatch
  ) throws(StoreError) -> (exists: Bool, id: LargeValueID?) {
    guard let bytes = try batch.value(forKey: key, in: headers) else { return (false, nil) }
    let id: LargeValueID
    do throws(StoreError) { id = try LargeValueHeader(bytes, of: key).id } catch {
      guard error.code == .corrupted else { throw error }
      return (true, nil)
    }
    try batch.set(claim(0), forKey: id.claimKey, in: pieces)
    return (true, id)
  }
}

extension LargeValues {
  /// Writes one value in parts. ``commit(durability:)`` makes it visible.
  ///
  /// A writer that is not used any more, without a commit, leaves pieces that are removed later.
  /// ``cancel()`` removes them at once. A writer to which nothing is appended for an hour may lose
  /// its pieces; then its commit throws `.cancelled`.
  public struct Writer: ~Copyable, Sendable {
    private let values: LargeValues
    private let key: Key
    private let id: LargeValueID
    private var claim: [UInt8]
    private var claimMilliseconds: UInt64
    private var buffer: [UInt8] = []
    private var pieceCount: UInt32 = 0
    private var checksum = Checksum()
    /// The error of a piece, which is not part of the value any more.
    private var failure: StoreError?
    /// The number of bytes in the pieces that were written.
    private var writtenBytes: UInt64 = 0
    /// The number of bytes that were appended.
    public var length: UInt64 { writtenBytes + UInt64(buffer.count) }

    fileprivate init(
      _ values: LargeValues, _ key: Key, _ id: LargeValueID, claim: [UInt8],
      of milliseconds: UInt64
    ) {
      (self.values, self.key, self.id, self.claim) = (values, key, id, claim)
      claimMilliseconds = milliseconds
      buffer.reserveCapacity(LargeValues.pieceBytes)
    }

    /// Appends bytes to the value. Each full piece is written to the log, and sometimes a sign that
    /// this writer is at work.
    ///
    /// - Throws: the errors of ``Store/set(_:forKey:durability:)``; `.cancelled`. Call
    ///   ``cancel()`` then: all later calls throw the same error.
    /// - Complexity: O(bytes).
    public nonisolated(nonsending) mutating func append(
      _ bytes: some Sequence<UInt8>
    ) async throws(StoreError) {
      if let failure { throw failure }
      do throws(StoreError) { try await add(Array(bytes)) } catch {
        failure = error
        throw error
      }
    }

    private nonisolated(nonsending) mutating func add(_ bytes: [UInt8]) async throws(StoreError) {
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = min(rest.count, LargeValues.pieceBytes - buffer.count)
        buffer += rest.prefix(count)
        rest = rest.dropFirst(count)
        if buffer.count == LargeValues.pieceBytes { try await writePiece() }
      }
      // A piece may fill so slowly that its writer would seem to have stopped.
      try await renewClaim()
    }

    private nonisolated(nonsending) mutating func writePiece() async throws(StoreError) {
      guard pieceCount < .max else {
        throw StoreError(.valueTooLarge, "the value '\(key)' has more pieces than can be counted")
      }
      buffer.withUnsafeBytes { checksum.update($0) }
      try await renewClaim()
      try await values.store.addPiece(
        buffer, pieceCount, to: id, of: values, forKey: key, claim: claim)
      writtenBytes += UInt64(buffer.count)
      pieceCount += 1
      buffer.removeAll(keepingCapacity: true)
    }

    /// Says that this writer is at work, from time to time, and when the clock was set.
    private nonisolated(nonsending) mutating func renewClaim() async throws(StoreError) {
      let now = max(1, values.store.clock.milliseconds)
      let age = now > claimMilliseconds ? now - claimMilliseconds : claimMilliseconds - now
      guard age > renewalMilliseconds else { return }
      await values.store.boundsOfNow()
      let new = values.claim(now)
      let renewed = try await values.pieces.set(
        new, forKey: id.claimKey, if: .value(claim), durability: Durability.none)
      guard renewed != nil else { throw Self.lost(key) }
      (claim, claimMilliseconds) = (new, now)
    }

    /// Completes the value: it replaces the value of the key.
    ///
    /// - Parameter durability: what to wait for; nil for the configuration's durability. All pieces
    ///   are then as durable as the value.
    /// - Returns: the sequence number at which the value became visible.
    /// - Throws: `.cancelled` when the pieces were removed, because nothing was appended for an
    ///   hour; the errors of ``append(_:)``. The key keeps its old value then, except after an
    ///   error of the sync, as for ``Store/set(_:forKey:durability:)``.
    @discardableResult
    public nonisolated(nonsending) consuming func commit(
      durability: Durability? = nil
    ) async throws(StoreError) -> SequenceNumber {
      do throws(StoreError) {
        if let failure { throw failure }
        if !buffer.isEmpty { try await writePiece() }
      } catch {
        // What cannot be removed now is removed later, as after a crash.
        do throws(StoreError) { try await values.removePieces(of: id) } catch {}
        throw error
      }
      let header = LargeValueHeader(
        id: id, length: length, pieceBytes: UInt32(LargeValues.pieceBytes),
        checksum: checksum.value)
      let (sequence, old): (SequenceNumber, LargeValueID?)
      do throws(StoreError) {
        (sequence, old) = try await values.store.commitLargeValue(
          header, of: values, forKey: key, claim: claim, durability)
      } catch {
        // The value may be visible after an error of the sync; then its pieces have no claim.
        do throws(StoreError) { try await values.abandon(id, claim: claim) } catch {}
        throw error
      }
      // The value is visible. Old pieces that cannot be removed now are removed by a later write.
      if let old { do throws(StoreError) { try await values.removePieces(of: old) } catch {} }
      return sequence
    }

    /// Removes the pieces that were written.
    ///
    /// - Throws: the errors of ``Keyspace/removeAll(in:durability:)``; a later write then removes
    ///   the pieces.
    public nonisolated(nonsending) consuming func cancel() async throws(StoreError) {
      try await values.removePieces(of: id)
    }

    fileprivate static func lost(_ key: Key) -> StoreError {
      StoreError(
        .cancelled,
        "the pieces of the value '\(key)' were removed, because its writer had paused for an hour")
    }
  }
}
