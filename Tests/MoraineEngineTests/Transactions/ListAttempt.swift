import MoraineEngine
import MoraineTesting

/// The lists of a store. Each is an entry of one of three keyspaces, and can move between them.
///
/// An operation that appends its id to lists also writes an entry of its own, its mark, into the
/// unnamed keyspace. The sequence numbers of the marks are the order of the commits.
struct ListPlaces: Sendable {
  static let listCount = 9
  static let orderedCount = 2
  static let names = ["left", "right", "heap"]

  let keyspaces: [Keyspace]

  init(_ store: Store) throws(StoreError) {
    keyspaces = [
      try store.orderedKeyspace(named: Self.names[0]),
      try store.orderedKeyspace(named: Self.names[1]), try store.keyspace(named: Self.names[2]),
    ]
  }

  static func key(_ list: Int) -> Key { Key("list \(10 + list)") }

  /// Returns the numbers of the keyspaces in a random order.
  static func shuffled(_ random: inout SeededGenerator) -> [Int] {
    names.indices.shuffled(using: &random)
  }
}

/// The lists and marks of a store at one moment.
struct ListContents: Equatable, Sendable {
  private(set) var lists: [String: [HistoryChecker.ID]] = [:]
  /// The sequence number of each mark.
  private(set) var marks: [HistoryChecker.ID: UInt64] = [:]

  var ids: Set<HistoryChecker.ID> {
    lists.values.reduce(into: Set(marks.keys)) { $0.formUnion($1) }
  }

  /// Reads a store in a transaction, which takes another snapshot if another opening of a shared
  /// store has removed files of the first one.
  static func read(from store: Store) async throws -> ListContents {
    let places = try ListPlaces(store)
    return try await store.transaction(retries: 1000) { transaction in
      var contents = ListContents()
      for (number, place) in places.keyspaces.enumerated() {
        let entries = try transaction.allEntries(of: place)
        for entry in entries { try contents.add(entry) }
        // A range of a keyspace that does not exist would create it.
        guard number < ListPlaces.orderedCount, !entries.isEmpty else { continue }
        guard try transaction.entries(of: place).map(\.key) == entries.map(\.key).sorted() else {
          throw HistoryProblem("the order of \(place.name) differs from the log")
        }
      }
      for entry in try transaction.allEntries() {
        guard let id = HistoryChecker.ID("\(entry.key)") else {
          throw HistoryProblem("there is a mark '\(entry.key)', which no operation has written")
        }
        contents.marks[id] = entry.sequence.rawValue
      }
      return contents
    }
  }

  private mutating func add(_ entry: Store.Entry) throws {
    let name = "\(entry.key)"
    guard lists.updateValue(ListTransaction.list(entry.value), forKey: name) == nil else {
      throw HistoryProblem("\(name) is in two keyspaces: half of a transaction is present")
    }
  }
}

/// A contradiction between a history and the promises of the store.
struct HistoryProblem: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}

/// The lists that one attempt of an operation has read, and the writes that follow from them.
struct ListAttempt: Sendable {
  struct Found: Equatable, Sendable {
    let ids: [HistoryChecker.ID]
    /// The keyspace of the list; nil for an empty list, which is in none.
    let place: Int?
  }

  struct Write: Sendable {
    /// The keyspace; nil for the unnamed one.
    let place: Int?
    let key: Key
    /// Nil when the key is removed.
    let value: [UInt8]?
  }

  private(set) var committed: HistoryChecker.Committed
  private var found: [Int: Found] = [:]

  init(_ id: HistoryChecker.ID) {
    committed = HistoryChecker.Committed(id: id)
  }

  /// Records a list that was read.
  ///
  /// - Throws: ``HistoryProblem`` when an earlier read of the attempt had another result.
  mutating func record(_ list: Int, _ value: [UInt8]?, in place: Int?) throws {
    let new = Found(ids: ListTransaction.list(value), place: value == nil ? nil : place)
    let name = "\(ListPlaces.key(list))"
    if let old = found.updateValue(new, forKey: list), old != new {
      throw HistoryProblem("\(committed.id) has read \(name) twice, as \(old) and as \(new)")
    }
    committed.reads[name] = new.ids
  }

  /// Chooses lists that were read, and returns the writes that append the id to them. Some lists
  /// move to another keyspace.
  mutating func appends(_ random: inout SeededGenerator) -> [Write] {
    let lists = found.keys.sorted().shuffled(using: &random).prefix(random.below(4))
    if lists.isEmpty { return [] }
    var writes: [Write] = []
    for list in lists {
      guard let old = found[list] else { continue }
      let key = ListPlaces.key(list)
      let new = random.below(3) == 0 ? random.below(ListPlaces.names.count) : old.place
      let place = new ?? random.below(ListPlaces.names.count)
      let ids = ListTransaction.bytes(old.ids + [committed.id])
      writes.append(Write(place: place, key: key, value: ids))
      if let left = old.place, left != place {
        writes.append(Write(place: left, key: key, value: nil))
      }
      committed.appends.insert("\(key)")
    }
    let mark = [UInt8](repeating: UInt8(random.below(256)), count: random.below(40))
    writes.append(Write(place: nil, key: Key("\(committed.id)"), value: mark))
    return writes.shuffled(using: &random)
  }
}
