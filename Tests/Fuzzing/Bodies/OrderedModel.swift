import MoraineEngine

/// The expected contents of one keyspace, with the keys in their order.
struct SortedContents: Equatable {
  private(set) var keys: [Key] = []
  private(set) var values: [Key: [UInt8]] = [:]

  init(_ values: [Key: [UInt8]] = [:]) {
    self.values = values
    keys = values.keys.sorted()
  }

  subscript(key: Key) -> [UInt8]? {
    get { values[key] }
    set {
      let place = index(of: key)
      switch (values[key] == nil, newValue == nil) {
      case (true, false): keys.insert(key, at: place)
      case (false, true): keys.remove(at: place)
      default: break
      }
      values[key] = newValue
    }
  }

  /// Returns the place of the first key that is not less than a key.
  func index(of key: Key) -> Int {
    var (low, high) = (0, keys.count)
    while low < high {
      let middle = (low + high) / 2
      if keys[middle] < key { low = middle + 1 } else { high = middle }
    }
    return low
  }

  func places(in range: KeyRange) -> Range<Int> {
    let start = range.lowerBound.map { index(of: $0) } ?? 0
    let end = range.upperBound.map { index(of: $0) } ?? keys.count
    return start..<max(start, end)
  }

  /// Returns the first keys of a range, in an order.
  func keys(in range: KeyRange, _ order: KeyOrder, limit: Int) -> [Key] {
    let found = keys[places(in: range)]
    return Array((order == .ascending ? Array(found) : found.reversed()).prefix(limit))
  }
}

/// The expected contents of all keyspaces of the fixture.
struct OrderedModel: Equatable {
  private(set) var keyspaces: [String: SortedContents] = [:]

  init() {}

  /// Reads all keyspaces.
  init(of store: Store) async throws {
    for name in OrderedFixture.ordered + OrderedFixture.hashed {
      keyspaces[name] = SortedContents(try await Self.contents(of: name, in: store))
    }
  }

  /// Reads a keyspace in the order of the log.
  static func contents(of name: String, in store: Store) async throws -> [Key: [UInt8]] {
    var found: [Key: [UInt8]] = [:]
    var repeated: Key?
    try await store.keyspace(named: name).scan { entry in
      if found.updateValue(entry.value, forKey: entry.key) != nil { repeated = entry.key }
      return true
    }
    try require(repeated == nil, "a key is listed twice")
    return found
  }

  subscript(name: String) -> SortedContents { keyspaces[name] ?? SortedContents() }

  /// Sets the value of a key; nil removes the key.
  mutating func set(_ value: [UInt8]?, _ key: Key, in name: String) {
    keyspaces[name, default: SortedContents()][key] = value
  }
}
