/// Cache of the most recently used decoded models.
///
/// The cache has two generations. A model that is used moves into the young generation. When the
/// young generation has reached half of the limit, it becomes the old one, and the models of the
/// previous old generation are removed. A use costs a dictionary look-up; there is no list to
/// maintain.
@usableFromInline
struct ModelCache<ID: Hashable, Model> {
  @usableFromInline
  struct Entry {
    /// The model; nil when it was deleted.
    @usableFromInline let model: Model?
    /// Sequence number of the record that the model was read from or written to.
    let sequence: UInt64
    let costBytes: Int
  }

  private let limit: Int
  private let countsModels: Bool
  @usableFromInline private(set) var young: [ID: Entry] = [:]
  private var old: [ID: Entry] = [:]
  private var youngCost = 0

  init(_ policy: CachePolicy) {
    switch policy.kind {
    case .none: (limit, countsModels) = (0, true)
    case .all: (limit, countsModels) = (.max, true)
    case .models(let count): (limit, countsModels) = (count, true)
    case .bytes(let count): (limit, countsModels) = (count, false)
    }
  }

  var isOff: Bool { limit == 0 }
  var count: Int { young.count + old.keys.count { young[$0] == nil } }

  /// Returns the entry of an id and marks it as used; nil when the cache has none.
  mutating func entry(_ id: ID) -> Entry? {
    if let entry = young[id] { return entry }
    guard let entry = old.removeValue(forKey: id) else { return nil }
    keep(entry, for: id)
    return entry
  }

  /// Inserts an entry unless the cache has a newer one for the id: concurrent tasks may end in
  /// another order than their commits.
  mutating func insert(_ entry: Entry, for id: ID) {
    guard limit > 0 else { return }
    let most = max(1, limit / 2)
    if let place = young.index(forKey: id) {
      let known = young.values[place]
      if known.sequence >= entry.sequence { return }
      let cost = youngCost - cost(known) + cost(entry)
      if cost <= most {
        young.values[place] = entry
        youngCost = cost
        return
      }
      young.remove(at: place)
      youngCost -= self.cost(known)
    } else if !old.isEmpty, let known = old[id] {
      if known.sequence >= entry.sequence { return }
      old[id] = nil
    }
    // A model that is larger than a generation would only evict all others.
    guard cost(entry) <= most else { return }
    keep(entry, for: id)
  }

  mutating func remove(_ id: ID) {
    if let known = young.removeValue(forKey: id) { youngCost -= cost(known) }
    old[id] = nil
  }

  mutating func removeAll() {
    young = [:]
    old = [:]
    youngCost = 0
  }

  private func cost(_ entry: Entry) -> Int { countsModels ? 1 : entry.costBytes }

  private mutating func keep(_ entry: Entry, for id: ID) {
    if limit < .max, youngCost + cost(entry) > max(1, limit / 2) {
      old = young
      young = [:]
      youngCost = 0
    }
    young[id] = entry
    youngCost += cost(entry)
  }
}
