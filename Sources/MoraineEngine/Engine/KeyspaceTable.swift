import MoraineFormat

/// The keyspaces of a store: what they are called, and what is live in each.
///
/// The unnamed one, number 0, is not counted here: it has what the others leave of the store's own
/// figures, so that a store without names pays nothing.
struct KeyspaceTable {
  struct Figures: Equatable {
    var count = 0
    var liveBytes: UInt64 = 0
  }

  /// Numbers from here on are the system's own.
  static let firstSystemID: UInt16 = 0xFF00

  private var ids: [String: UInt16] = [:]
  private let observers: Observers
  private let unnamedMonitor: ChangeMonitor
  /// By number; what 0 and gaps have is never looked at.
  private var monitors: [ChangeMonitor] = []
  private var names: [UInt16: String] = [0: ""]
  /// By number; 0 has none.
  private var figures: [Figures] = []
  private var isListed: [Bool] = []
  private var systemFigures = Figures()
  /// False after a checkpoint was begun with whose segments are not all there any more: then they
  /// are counted when somebody asks.
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

  /// Nil when nothing was ever written to it. The unnamed one is always there.
  func id(of name: String) -> UInt16? { name.isEmpty ? 0 : ids[name] }

  /// All names but the unnamed one's, with their numbers.
  var numbers: [String: UInt16] { ids }

  var isEmpty: Bool { ids.isEmpty }

  /// Whether the manifest lists it, or need not.
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

  /// All but the unnamed one's together.
  var named: Figures {
    figures.reduce(systemFigures) { sum, other in
      Figures(count: sum.count &+ other.count, liveBytes: sum.liveBytes &+ other.liveBytes)
    }
  }

  /// Nil for what is the system's own.
  func name(of id: UInt16) -> String? { names[id] }

  /// Tells who watches that a change is visible.
  @inline(__always)
  func recordCommit(_ id: UInt16) {
    if id == 0 {
      unnamedMonitor.recordCommit()
    } else if Int(id) < monitors.count {
      monitors[Int(id)].recordCommit()
    }
  }

  /// Tells all who watch that something may have changed.
  func recordCommitToAll() {
    unnamedMonitor.recordCommit()
    for monitor in monitors where monitor !== unnamedMonitor { monitor.recordCommit() }
  }

  /// A record became live.
  mutating func gain(_ id: UInt16, bytes: UInt64) {
    self[id].count &+= 1
    self[id].liveBytes &+= bytes
  }

  /// A record is live no more.
  mutating func lose(_ id: UInt16, bytes: UInt64) {
    self[id].count &-= 1
    self[id].liveBytes &-= bytes
  }

  /// Begins to count anew.
  mutating func forgetFigures() {
    for id in figures.indices { figures[id] = Figures() }
    systemFigures = Figures()
    isCounted = true
  }
}

extension KeyspaceTable {
  /// What a checkpoint says of them; nil when nobody has counted.
  var checkpointed: [CheckpointHeader.Keyspace]? {
    guard isCounted else { return nil }
    return listedIDs.compactMap { id in
      let figures = self[id]
      guard figures.count > 0 else { return nil }
      return CheckpointHeader.Keyspace(
        id: id, recordCount: UInt64(clamping: figures.count), liveBytes: figures.liveBytes)
    }
  }

  /// Begins with what a checkpoint says of them.
  ///
  /// - Parameter counted: nil when it says nothing that holds.
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
  /// Counts what is live in each keyspace, where that is not known.
  ///
  /// - Complexity: O(keys), each with a look at its record, when the store was opened with a
  ///   checkpoint older than the last compaction; otherwise O(1).
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

  /// What is live in a keyspace.
  mutating func figures(of id: UInt16) throws(StoreError) -> KeyspaceTable.Figures {
    try countKeyspaces()
    guard id == 0 else { return keyspaces[id] }
    let named = keyspaces.named
    return KeyspaceTable.Figures(
      count: index.count - named.count, liveBytes: liveBytes &- named.liveBytes)
  }
}
