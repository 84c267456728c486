import MoraineFormat

/// The keyspaces of a store: their names, numbers and watchers.
struct KeyspaceTable {
  /// First of the numbers that belong to the system.
  static let firstSystemID: UInt16 = 0xFF00

  private var ids: [String: UInt16] = [:]
  private let observers: Observers
  private let unnamedMonitor: ChangeMonitor
  /// Monitors by number; the elements of 0 and of gaps are never used.
  private var monitors: [ChangeMonitor] = []
  private var names: [UInt16: String] = [0: ""]
  private var isListed: [Bool] = []

  init(_ listed: [Manifest.Keyspace], _ observers: Observers) {
    self.observers = observers
    unnamedMonitor = observers.monitor(of: "")
    for keyspace in listed { add(keyspace) }
  }

  mutating func add(_ keyspace: Manifest.Keyspace) {
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
      count: live.index.count - named.count, liveBytes: live.bytes &- named.liveBytes)
  }
}
