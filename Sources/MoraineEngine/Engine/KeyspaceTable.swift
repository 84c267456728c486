import MoraineFormat

/// The keyspaces of a store: their names, and the live figures of each.
///
/// The unnamed keyspace, number 0, is not counted here: its figures are those of the store without
/// those of the other keyspaces, so that a store without names pays nothing.
struct KeyspaceTable {
  struct Figures: Equatable {
    var count = 0
    var liveBytes: UInt64 = 0
  }

  /// First of the numbers that belong to the system.
  static let firstSystemID: UInt16 = 0xFF00

  private var ids: [String: UInt16] = [:]
  private let observers: Observers
  private let unnamedMonitor: ChangeMonitor
  /// Monitors by number; the elements of 0 and of gaps are never used.
  private var monitors: [ChangeMonitor] = []
  private var names: [UInt16: String] = [0: ""]
  /// Figures by number; 0 has none.
  private var figures: [Figures] = []
  private var isListed: [Bool] = []
  private var systemFigures = Figures()
  /// False after the store was opened with a checkpoint that covers segments which no longer exist.
  /// Then the records are counted when a caller asks.
  var isCounted = true

  init(_ listed: [Manifest.Keyspace], _ observers: Observers) {
    self.observers = observers
    unnamedMonitor = observers.monitor(of: "")
    for keyspace in listed { add(keyspace) }
  }

  mutating func add(_ keyspace: Manifest.Keyspace) {
    ids[keyspace.name] = keyspace.id
    names[keyspace.id] = keyspace.name
    let missing = Int(keyspace.id) + 1 - figures.count
    guard keyspace.id < Self.firstSystemID else { return }
    if missing > 0 {
      figures.append(contentsOf: repeatElement(Figures(), count: missing))
      isListed.append(contentsOf: repeatElement(false, count: missing))
      monitors.append(contentsOf: repeatElement(unnamedMonitor, count: missing))
    }
    isListed[Int(keyspace.id)] = true
    monitors[Int(keyspace.id)] = observers.monitor(of: keyspace.name)
  }

  /// Returns the number of a keyspace; nil when nothing was ever written to it. The unnamed
  /// keyspace always exists.
  func id(of name: String) -> UInt16? { name.isEmpty ? 0 : ids[name] }

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

  subscript(id: UInt16) -> Figures {
    get { Int(id) < figures.count ? figures[Int(id)] : systemFigures }
    set {
      if Int(id) < figures.count { figures[Int(id)] = newValue } else { systemFigures = newValue }
    }
  }

  /// Figures of all keyspaces together, except the unnamed one.
  var named: Figures {
    figures.reduce(systemFigures) { sum, other in
      Figures(count: sum.count &+ other.count, liveBytes: sum.liveBytes &+ other.liveBytes)
    }
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

  /// Counts a record that became live.
  mutating func gain(_ id: UInt16, bytes: UInt64) {
    self[id].count &+= 1
    self[id].liveBytes &+= bytes
  }

  /// Subtracts a record that is no longer live.
  mutating func lose(_ id: UInt16, bytes: UInt64) {
    self[id].count &-= 1
    self[id].liveBytes &-= bytes
  }

  /// Resets the figures, so that counting can begin again.
  mutating func forgetFigures() {
    for id in figures.indices { figures[id] = Figures() }
    systemFigures = Figures()
    isCounted = true
  }
}

extension KeyspaceTable {
  /// Figures for a checkpoint; nil when the records are not counted.
  var checkpointed: [CheckpointHeader.Keyspace]? {
    guard isCounted else { return nil }
    return listedIDs.compactMap { id in
      let figures = self[id]
      guard figures.count > 0 else { return nil }
      return CheckpointHeader.Keyspace(
        id: id, recordCount: UInt64(clamping: figures.count), liveBytes: figures.liveBytes)
    }
  }

  /// Adopts the figures of a checkpoint.
  ///
  /// - Parameter counted: nil when the checkpoint has no valid figures.
  mutating func adopt(_ counted: [CheckpointHeader.Keyspace]?) {
    guard let counted else {
      isCounted = isEmpty
      return
    }
    for keyspace in counted {
      self[keyspace.id] = Figures(
        count: Int(clamping: keyspace.recordCount), liveBytes: keyspace.liveBytes)
    }
  }
}

extension EngineState {
  /// Counts the live records of each keyspace, unless they are counted already.
  ///
  /// - Complexity: O(keys), with a read of each record, when the store was opened with a checkpoint
  ///   older than the last compaction; otherwise O(1).
  mutating func countKeyspaces() throws(StoreError) {
    if keyspaces.isCounted { return }
    try validateAllPages()
    var counted = keyspaces
    counted.forgetFigures()
    for address in index.addresses() {
      let record = try table.record(at: address)
      guard record.header.keyspace != 0 else { continue }
      counted.gain(record.header.keyspace, bytes: UInt64(aligned(record.header.length)))
    }
    keyspaces = counted
  }

  /// Returns the live figures of a keyspace.
  mutating func figures(of id: UInt16) throws(StoreError) -> KeyspaceTable.Figures {
    try countKeyspaces()
    guard id == 0 else { return keyspaces[id] }
    let named = keyspaces.named
    return KeyspaceTable.Figures(
      count: index.count - named.count, liveBytes: liveBytes &- named.liveBytes)
  }
}
