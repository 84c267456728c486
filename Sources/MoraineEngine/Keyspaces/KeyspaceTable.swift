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
  func note(_ id: UInt16) {
    if id == 0 {
      unnamedMonitor.note()
    } else if Int(id) < monitors.count {
      monitors[Int(id)].note()
    }
  }

  /// Tells all who watch that something may have changed.
  func noteAll() {
    unnamedMonitor.note()
    for monitor in monitors where monitor !== unnamedMonitor { monitor.note() }
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
