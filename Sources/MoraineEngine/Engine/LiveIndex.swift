import MoraineFormat

/// The live records of a store: their index, and the figures that follow from it.
///
/// Each change of the index is one call of this type. The call also changes the figures of the
/// record's segment in the table, of its keyspace, and of the store. No other code changes these
/// figures, so they always agree with the index.
struct LiveIndex: ~Copyable {
  var index: HashIndex
  /// The index of the ordered keyspaces.
  var trees: TreeIndex
  /// Digest of the live records.
  private(set) var digest = StateDigest()
  /// Number of bytes of the live records. It begins with the figure of a checkpoint, which can be
  /// forged; then it may fall below zero and wrap.
  private(set) var bytes: UInt64 = 0
  private(set) var keyspaces = KeyspaceFigures()

  /// - Throws: `.limitExceeded` when the system gives no memory.
  init(ordered: OrderedKeyspaces = OrderedKeyspaces()) throws(StoreError) {
    index = try HashIndex()
    trees = TreeIndex(ordered: ordered)
  }

  /// Size of the index's pages, in bytes.
  var byteCount: Int { index.byteCount &+ trees.byteCount }

  /// Number of live records.
  var count: Int { index.count &+ trees.count }

  /// Makes a record visible, instead of the record that its key has so far.
  ///
  /// - Parameter existing: the entry that the key has so far.
  @inline(__always)
  mutating func apply(
    _ effect: RecordKind.Effect, at address: Address, length: Int, sequence: UInt64, hash: UInt64,
    keyspace: UInt16, over existing: ReplaceableEntry?, in table: borrowing SegmentTable
  ) {
    switch effect {
    case .sets:
      install(
        address, length: length, sequence: sequence, hash: hash, keyspace: keyspace,
        over: existing, in: table)
    case .removes:
      if let existing {
        retire(existing, hash: hash, keyspace: keyspace, in: table)
        index.remove(existing.entry)
      }
    case .none: assertionFailure("a record without a key changes no entry")
    }
  }

  @inline(__always)
  private mutating func install(
    _ address: Address, length: Int, sequence: UInt64, hash: UInt64, keyspace: UInt16,
    over existing: ReplaceableEntry?, in table: borrowing SegmentTable
  ) {
    let size = UInt64(truncatingIfNeeded: aligned(length))
    if let existing {
      retire(existing, hash: hash, keyspace: keyspace, in: table)
      index.replace(existing.entry, with: address)
    } else {
      index.insert(hash, address, rehashing: table)
    }
    gain(
      address.slot, size: size, sequence: sequence, hash: hash, keyspace: keyspace, in: table)
  }

  /// Adds a record to the figures.
  @inline(__always)
  private mutating func gain(
    _ slot: Int, size: UInt64, sequence: UInt64, hash: UInt64, keyspace: UInt16,
    in table: borrowing SegmentTable
  ) {
    bytes &+= size
    if keyspace != 0 { keyspaces.gain(keyspace, bytes: size) }
    let mixed = StateDigest.of(hash: hash, sequence: sequence)
    digest.add(mixed)
    table[slot].gain(size, mixed)
  }

  /// Removes the record that an entry names from the figures.
  @inline(__always)
  private mutating func retire(
    _ old: ReplaceableEntry, hash: UInt64, keyspace: UInt16, in table: borrowing SegmentTable
  ) {
    lose(
      old.address, length: old.length, sequence: old.sequence, hash: hash, keyspace: keyspace,
      in: table)
  }

  /// Removes a record from the figures.
  @inline(__always)
  private mutating func lose(
    _ address: Address, length: Int, sequence: UInt64, hash: UInt64, keyspace: UInt16,
    in table: borrowing SegmentTable
  ) {
    let size = UInt64(truncatingIfNeeded: aligned(length))
    bytes &-= size
    if keyspace != 0 { keyspaces.lose(keyspace, bytes: size) }
    let mixed = StateDigest.of(hash: hash, sequence: sequence)
    digest.remove(mixed)
    table[address.slot].lose(size, mixed, at: address.offset)
  }

  /// Takes ahead the memory for moving this number of entries. Other changes do not use that memory
  /// until ``endMoves()``.
  ///
  /// - Throws: `.limitExceeded` when the system gives no memory.
  mutating func beginMoves(_ count: Int) throws(StoreError) {
    try trees.beginMoves(count)
    do throws(StoreError) { try index.beginMoves(count) } catch {
      trees.movesUnderWay = 0
      throw error
    }
  }

  /// Copies pages back to original pages that no snapshot has any more.
  ///
  /// - Returns: whether more pages can be looked at now.
  mutating func tend(pages limit: Int) -> Bool {
    index.tend(pages: limit) || trees.tend(pages: limit)
  }

  /// Ends the moves of a compaction.
  mutating func endMoves() {
    index.movesUnderWay = 0
    trees.movesUnderWay = 0
  }

  /// Takes ahead the memory for copies that the moves under way need after a snapshot was taken.
  ///
  /// - Throws: as ``beginMoves(_:)``; then the snapshot must be released.
  func secureMoves() throws(StoreError) {
    try index.secureMoves()
    try trees.secureMoves()
  }

  /// The most bytes that are taken ahead for copies of pages, for each of the two kinds of index.
  private static let preparedBytes = 16 << 20

  /// Returns a job that takes memory ahead for the copies that changes make while a snapshot is
  /// alive. A snapshot is taken afterwards.
  func preparationOfCopies() -> @Sendable () -> Void {
    let (hashed, hashedBytes) = (index.memory, min(index.byteCount, Self.preparedBytes))
    let (nodes, nodeBytes) = (trees.memory, min(trees.byteCount, Self.preparedBytes))
    return {
      hashed.prepareCopies(hashedBytes / BucketArray.pageBytes)
      nodes.prepareCopies(nodeBytes / BucketArray.pageBytes)
    }
  }

  /// Lets the entry of a record name its copy, unless the entry names a newer record or no longer
  /// exists.
  mutating func relocate(
    _ relocation: Relocation, to copy: Address, in table: borrowing SegmentTable
  ) {
    let isMoved =
      trees.isOrdered(relocation.keyspace)
      ? table.key(relocation.orderedKey, at: relocation.old).withBytes {
        trees.move(relocation.old, to: copy, TreeKey($0), in: relocation.keyspace)
      }
      : index.move(relocation.old, to: copy, relocation.hash)
    guard isMoved else { return }
    let before = UInt64(aligned(Int(relocation.oldLength)))
    let after = UInt64(aligned(Int(relocation.newLength)))
    // The digest of the store stays: the copy has the key and the sequence number of the original.
    let mixed = StateDigest.of(hash: relocation.hash, sequence: relocation.sequence)
    assert(relocation.old.slot != copy.slot, "a record was copied to its own segment")
    table[relocation.old.slot].lose(before, mixed, at: relocation.old.offset)
    table[copy.slot].gain(after, mixed)
    bytes = bytes &- before &+ after
    if relocation.keyspace != 0 {
      keyspaces.resize(relocation.keyspace, from: before, to: after)
    }
  }

  /// Begins with the index of a checkpoint, and with the figures of the segments that it covers and
  /// that still exist.
  mutating func adopt(
    _ index: consuming HashIndex, _ trees: consuming TreeIndex,
    _ segments: [CheckpointHeader.Segment]
  ) {
    assert(bytes == 0, "a checkpoint is adopted by an index that has records")
    self.index = index
    self.trees = trees
    for segment in segments {
      digest.add(segment.digest)
      bytes &+= segment.liveBytes
    }
  }

  /// Begins with the figures of the keyspaces in a checkpoint.
  ///
  /// - Parameter counted: nil when the checkpoint has no valid figures.
  mutating func adopt(
    keyspaces counted: [CheckpointHeader.Keyspace]?, areNamesEmpty: Bool
  ) {
    keyspaces.adopt(counted, areNamesEmpty: areNamesEmpty)
  }

  /// Counts the live records of each keyspace, unless they are counted already. All pages of the
  /// index were validated.
  ///
  /// - Complexity: O(keys), with a read of each record, when the store was opened with a checkpoint
  ///   older than the last compaction; otherwise O(1).
  mutating func countKeyspaces(in table: borrowing SegmentTable) throws(StoreError) {
    if keyspaces.areCounted { return }
    var counted = KeyspaceFigures()
    for address in index.addresses() + trees.addresses() {
      let record = try table.record(at: address)
      guard record.header.keyspace != 0 else { continue }
      counted.gain(record.header.keyspace, bytes: UInt64(aligned(record.header.length)))
    }
    keyspaces = counted
  }
}

// Changes of ordered keyspaces.
extension LiveIndex {
  /// Makes a record of an ordered keyspace visible, as the other `apply` does for the others.
  ///
  /// - Parameters:
  ///   - place: the place of the key, found in the tree as it is now.
  ///   - existing: the record that the key has so far.
  mutating func apply(
    _ effect: RecordKind.Effect, _ key: TreeKey, at address: Address, length: Int,
    sequence: UInt64, hash: UInt64, keyspace: UInt16, _ place: TreePlace,
    over existing: ReplacedRecord?, in table: borrowing SegmentTable
  ) {
    assert(place.existing == existing?.address, "a place names another record than the key has")
    change(
      effect, at: address, length: length, sequence: sequence, hash: hash, keyspace: keyspace,
      over: existing, in: table)
    switch (effect, existing) {
    case (.sets, nil): trees.insert(key, address, at: place, in: keyspace, table)
    case (.sets, _): trees.replace(place, with: address)
    case (.removes, nil): return
    case (.removes, _): trees.remove(place, in: keyspace, table)
    case (.none, _): assertionFailure("a record without a key changes no entry")
    }
  }

  /// Changes the figures as a record of an ordered keyspace asks for. The caller changes the tree.
  mutating func change(
    _ effect: RecordKind.Effect, at address: Address, length: Int, sequence: UInt64, hash: UInt64,
    keyspace: UInt16, over existing: ReplacedRecord?, in table: borrowing SegmentTable
  ) {
    if let existing {
      lose(
        existing.address, length: existing.length, sequence: existing.sequence, hash: hash,
        keyspace: keyspace, in: table)
    }
    guard effect == .sets else { return }
    gain(
      address.slot, size: UInt64(aligned(length)), sequence: sequence, hash: hash,
      keyspace: keyspace, in: table)
  }
}

extension LiveIndex: LiveRecords {
  @inline(__always)
  func prefetch(_ hash: UInt64) { index.prefetch(hash) }

  @inline(__always)
  func isOrdered(_ keyspace: UInt16) -> Bool { trees.isOrdered(keyspace) }

  @inline(__always)
  func holds(_ address: Address, _ hash: UInt64) -> Bool { index.holds(address, hash) }

  func holdsOrdered(_ address: Address, _ record: RecordReference) -> Bool {
    trees.holds(address, TreeKey(record.key), trees.root(record.header.keyspace))
  }

  /// Whether the record of a candidate of a compaction is live.
  func holds(
    _ address: Address, _ hash: UInt64, _ keyspace: UInt16, orderedKey: [UInt8]?,
    in table: borrowing SegmentTable
  ) -> Bool {
    guard isOrdered(keyspace) else { return holds(address, hash) }
    return table.key(orderedKey, at: address).withBytes {
      trees.holds(address, TreeKey($0), trees.root(keyspace))
    }
  }

  /// Whether a record is live.
  func holds(_ address: Address, _ hash: UInt64, _ record: RecordReference) -> Bool {
    isOrdered(record.header.keyspace)
      ? holdsOrdered(address, record) : holds(address, hash)
  }
}

extension SegmentTable {
  /// Returns the key of a record that a compaction copies: the one that it has read, or the one in
  /// the record, whose checksum the compaction has verified. A record that cannot be read has no
  /// key. Before the compaction is published, its figures do not agree then; after that, its inputs
  /// keep live bytes, and are not removed.
  fileprivate func key(_ known: [UInt8]?, at address: Address) -> [UInt8] {
    if let known { return known }
    do throws(StoreError) { return [UInt8](try record(at: address).key) } catch { return [] }
  }
}

extension TreePages where Self: ~Copyable {
  /// Returns every address that a tree names, in the order of the keys.
  func addresses(_ root: TreeRoot) -> [Address] {
    guard root.hasPage else { return [] }
    var result: [Address] = []
    result.reserveCapacity(root.count)
    var cursor = start(root)
    while let address = next(&cursor) { result.append(address) }
    return result
  }
}

extension TreeIndex {
  /// Returns every address that the trees name.
  func addresses() -> [Address] { allRoots.values.flatMap { addresses($0) } }
}

/// A record that compaction has copied: where it was, and where its copy is.
struct Relocation {
  let old: Address
  let hash: UInt64
  let sequence: UInt64
  let newOffset: UInt32
  let oldLength: UInt32
  let newLength: UInt32
  let keyspace: UInt16
  /// The key of a record, where the input is not mapped and the keyspace was ordered when the
  /// compaction began; nil for the others.
  let orderedKey: [UInt8]?
}

/// The number and the bytes of the live records in each keyspace.
///
/// The unnamed keyspace, number 0, is not counted here: its figures are those of the store without
/// those of the other keyspaces, so that a store without names pays nothing.
struct KeyspaceFigures {
  struct Figures: Equatable {
    var count = 0
    var liveBytes: UInt64 = 0
  }

  /// Figures by number, of the keyspaces that have had a record; 0 has none.
  private var figures: [Figures] = []
  /// Figures of all keyspaces that belong to the system.
  private var systemFigures = Figures()
  /// False after the store was opened with a checkpoint that covers segments which no longer exist.
  /// Then the records are counted when a caller asks.
  private(set) var areCounted = true

  subscript(id: UInt16) -> Figures {
    if id >= KeyspaceTable.firstSystemID { return systemFigures }
    return Int(id) < figures.count ? figures[Int(id)] : Figures()
  }

  /// Figures of all keyspaces together, except the unnamed one.
  var named: Figures {
    figures.reduce(systemFigures) { sum, other in
      Figures(count: sum.count &+ other.count, liveBytes: sum.liveBytes &+ other.liveBytes)
    }
  }

  /// Counts a record that became live.
  mutating func gain(_ id: UInt16, bytes: UInt64) {
    change(id) {
      $0.count &+= 1
      $0.liveBytes &+= bytes
    }
  }

  /// Subtracts a record that is no longer live.
  mutating func lose(_ id: UInt16, bytes: UInt64) {
    change(id) {
      $0.count &-= 1
      $0.liveBytes &-= bytes
    }
  }

  /// Changes the size of a record, because its copy has another one.
  mutating func resize(_ id: UInt16, from before: UInt64, to after: UInt64) {
    change(id) { $0.liveBytes &+= after &- before }
  }

  @inline(__always)
  private mutating func change(_ id: UInt16, _ body: (inout Figures) -> Void) {
    assert(id != 0, "the unnamed keyspace is not counted")
    if id >= KeyspaceTable.firstSystemID { return body(&systemFigures) }
    if Int(id) >= figures.count { enlarge(for: id) }
    body(&figures[Int(id)])
  }

  private mutating func enlarge(for id: UInt16) {
    figures.append(contentsOf: repeatElement(Figures(), count: Int(id) + 1 - figures.count))
  }

  /// Returns the figures for a checkpoint; nil when the records are not counted.
  func checkpointed(_ ids: [UInt16]) -> [CheckpointHeader.Keyspace]? {
    guard areCounted else { return nil }
    return ids.compactMap { id in
      let figures = self[id]
      guard figures.count > 0 else { return nil }
      return CheckpointHeader.Keyspace(
        id: id, recordCount: UInt64(clamping: figures.count), liveBytes: figures.liveBytes)
    }
  }

  fileprivate mutating func adopt(
    _ counted: [CheckpointHeader.Keyspace]?, areNamesEmpty: Bool
  ) {
    guard let counted else {
      areCounted = areNamesEmpty
      return
    }
    for keyspace in counted {
      change(keyspace.id) {
        $0 = Figures(count: Int(clamping: keyspace.recordCount), liveBytes: keyspace.liveBytes)
      }
    }
  }
}

/// The keyspaces of a store: their names, numbers and watchers.
struct KeyspaceTable {
  /// First of the numbers that belong to the system.
  static let firstSystemID: UInt16 = 0xFF00

  private var ids: [String: UInt16] = [:]
  /// The first names with their numbers: to compare a name with few is faster than to hash it.
  private var firstNames: [(name: String, id: UInt16)] = []
  private static let firstNameLimit = 4
  private let observers: Observers
  private let unnamedMonitor: ChangeMonitor
  /// Monitors by number; the elements of 0 and of gaps are never used.
  private var monitors: [ChangeMonitor] = []
  private var names: [UInt16: String] = [0: ""]
  private var isListed: [Bool] = []
  /// The numbers of the keyspaces that have indexes.
  private var indexed: Set<UInt16> = []
  /// The numbers of the keyspaces that hold indexes.
  private(set) var systemIDs: Set<UInt16> = []
  /// Whether any keyspace has indexes.
  var hasIndexes: Bool { !systemIDs.isEmpty }

  init(_ listed: [Manifest.Keyspace], _ observers: Observers) {
    self.observers = observers
    unnamedMonitor = observers.monitor(of: "")
    for keyspace in listed { add(keyspace) }
  }

  mutating func add(_ keyspace: Manifest.Keyspace) {
    if let place = firstNames.firstIndex(where: { $0.name == keyspace.name }) {
      firstNames[place].id = keyspace.id
    } else if firstNames.count < Self.firstNameLimit {
      firstNames.append((keyspace.name, keyspace.id))
    }
    ids[keyspace.name] = keyspace.id
    names[keyspace.id] = keyspace.name
    let missing = Int(keyspace.id) + 1 - isListed.count
    guard keyspace.id < Self.firstSystemID else { return }
    if missing > 0 {
      isListed.append(contentsOf: repeatElement(false, count: missing))
      monitors.append(contentsOf: repeatElement(unnamedMonitor, count: missing))
    }
    assert(isListed.count == monitors.count, "a keyspace has no monitor")
    isListed[Int(keyspace.id)] = true
    monitors[Int(keyspace.id)] = observers.monitor(of: keyspace.name)
    if let name = IndexLayout.indexedName(of: keyspace.name) {
      systemIDs.insert(keyspace.id)
      if let id = id(of: name) { indexed.insert(id) }
    } else if hasIndexes, ids[IndexLayout.name(for: keyspace.name)] != nil {
      indexed.insert(keyspace.id)
    }
  }

  /// Returns the number of a keyspace; nil when nothing was ever written to it. The unnamed
  /// keyspace always exists.
  func id(of name: String) -> UInt16? {
    if name.isEmpty { return 0 }
    for first in firstNames where first.name == name { return first.id }
    return ids.count > firstNames.count ? ids[name] : nil
  }

  /// Whether a keyspace has indexes: a write to it must keep their entries.
  @inline(__always)
  func isIndexed(_ id: UInt16) -> Bool { hasIndexes && indexed.contains(id) }

  /// All names except the unnamed one, with their numbers.
  var numbers: [String: UInt16] { ids }

  var isEmpty: Bool { ids.isEmpty }

  /// Returns whether the manifest lists a keyspace, or need not list it.
  @inline(__always)
  func contains(_ id: UInt16) -> Bool { id == 0 || isListedOrSystem(id) }

  private func isListedOrSystem(_ id: UInt16) -> Bool {
    Int(id) < isListed.count ? isListed[Int(id)] : id >= Self.firstSystemID
  }

  var listedIDs: [UInt16] { isListed.indices.filter { isListed[$0] }.map { UInt16($0) } }

  /// Returns the name of a keyspace whose changes a feed returns; nil for one that holds indexes.
  func nameInFeeds(of id: UInt16) -> String? {
    systemIDs.isEmpty || !systemIDs.contains(id) ? names[id] : nil
  }

  /// Returns the name of a keyspace; nil for a keyspace of the system.
  func name(of id: UInt16) -> String? { names[id] }

  /// Notifies the watchers of a keyspace that a change is visible.
  @inline(__always)
  func recordCommit(_ id: UInt16) {
    if id == 0 {
      unnamedMonitor.recordCommit()
    } else if Int(id) < monitors.count {
      monitors[Int(id)].recordCommit()
    }
  }

  /// Notifies all watchers that something may have changed.
  func recordCommitToAll() {
    unnamedMonitor.recordCommit()
    for monitor in monitors where monitor !== unnamedMonitor { monitor.recordCommit() }
  }
}

extension EngineState {
  /// Counts the live records of each keyspace, unless they are counted already.
  ///
  /// - Complexity: as ``LiveIndex/countKeyspaces(in:)``.
  mutating func countKeyspaces() throws(StoreError) {
    if live.keyspaces.areCounted { return }
    try validateAllPages()
    try live.countKeyspaces(in: log.table)
  }

  /// Returns the live figures of a keyspace.
  mutating func figures(of id: UInt16) throws(StoreError) -> KeyspaceFigures.Figures {
    try countKeyspaces()
    guard id == 0 else { return live.keyspaces[id] }
    let named = live.keyspaces.named
    return KeyspaceFigures.Figures(
      count: live.count - named.count, liveBytes: live.bytes &- named.liveBytes)
  }
}
