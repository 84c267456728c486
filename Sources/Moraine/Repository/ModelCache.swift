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
  /// The last commit that deleted all models. Entries of it and of earlier commits are not inserted
  /// any more.
  private var floor: UInt64 = 0
  /// The last commits that left models which the cache does not keep, because they expire.
  private var floors: [ID: UInt64] = [:]
  /// So many commits are never under way at the same time.
  private static var floorLimit: Int { 4096 }

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
    guard limit > 0, entry.sequence > floor else { return }
    if !floors.isEmpty, let least = floors[id] {
      if entry.sequence <= least { return }
      floors[id] = nil
    }
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

  /// Removes the entry of an id whose model a commit has replaced by one that expires.
  mutating func remove(_ id: ID, at sequence: UInt64) {
    if floors.count >= Self.floorLimit { floors = [:] }
    floors[id] = max(sequence, floors[id] ?? 0)
    remove(id)
  }

  mutating func remove(_ id: ID) {
    if let known = young.removeValue(forKey: id) { youngCost -= cost(known) }
    old[id] = nil
  }

  /// Removes all entries, because a commit has deleted all models.
  mutating func removeAll(at sequence: UInt64) {
    floor = max(floor, sequence)
    removeAll()
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
