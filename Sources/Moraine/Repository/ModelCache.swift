/// Decoded models, those last used.
///
/// Two generations: what is used moves into the young one; when that has half of what is allowed,
/// it becomes the old one, and what was old and never used again goes. So it costs a dictionary
/// look-up and no list.
@usableFromInline
struct ModelCache<ID: Hashable, Model> {
  @usableFromInline
  struct Entry {
    /// Nil: it was deleted.
    @usableFromInline let model: Model?
    /// Of the record that it was decoded from, or written as.
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

  /// What is known of an id; nil when nothing is.
  mutating func entry(_ id: ID) -> Entry? {
    if let entry = young[id] { return entry }
    guard let entry = old.removeValue(forKey: id) else { return nil }
    keep(entry, for: id)
    return entry
  }

  /// Keeps what is known of an id, unless something newer is: what tasks do at once may end in
  /// another order than it was committed in.
  mutating func insert(_ entry: Entry, for id: ID) {
    guard limit > 0 else { return }
    if let known = young[id] ?? old[id], known.sequence >= entry.sequence { return }
    remove(id)
    // One larger than all that is allowed would only drive out the rest.
    guard cost(entry) <= max(1, limit / 2) else { return }
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
