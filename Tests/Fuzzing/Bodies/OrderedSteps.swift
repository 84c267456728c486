import MoraineEngine
import MoraineFormat
import MoraineStorage

// The operations of a run.
extension OrderedRun {
  /// An operation: what to do, and what it needs.
  mutating func step(_ input: inout FuzzInput) async throws {
    let operation = input.byte()
    switch operation & 31 {
    case 2, 3: try await stepRange(&input)
    case 4: try await stepCount(&input)
    case 5: try await stepNeighbours(&input)
    case 6, 7: try await stepCursor(&input)
    case 8: try await stepPages(&input)
    case 9: try await verify()
    case 10: isOver = try await !reopen()
    case 11...23 where !configuration.isReadOnly: try await change(operation & 31, &input)
    default: try await stepGet(&input)
    }
  }

  private mutating func change(_ operation: UInt8, _ input: inout FuzzInput) async throws {
    switch operation {
    case 11:
      isCompacted = isCompacted || !isExact
      let store = store
      _ = try await attempt { try await store.compact() }
    case 12...15: try await stepSet(&input)
    case 16, 17: try await stepRemove(&input)
    case 18, 19: try await stepBatch(&input)
    case 20: try await stepRemoveRange(&input)
    case 21, 22: try await stepTransaction(&input)
    default: try await stepFeed()
    }
  }

  // MARK: Arguments

  private func anyKeyspace(_ input: inout FuzzInput) -> String {
    let names = OrderedFixture.ordered + OrderedFixture.hashed
    return names[Int(input.byte()) % names.count]
  }

  private func orderedKeyspace(_ input: inout FuzzInput) -> String {
    OrderedFixture.ordered[Int(input.byte()) % OrderedFixture.ordered.count]
  }

  /// Returns a key of the keyspace, or one that differs a little from it, or other bytes.
  private func key(_ input: inout FuzzInput, _ name: String) -> Key {
    let shape = input.byte()
    let keys = model[name].keys
    let index = input.integer(byteCount: 2)
    guard !keys.isEmpty else { return Key(input.take(Int(shape) % 8)) }
    var bytes = keys[index % keys.count].bytes
    switch shape & 7 {
    case 1: bytes.append(0)
    case 2: bytes.append(input.byte())
    case 3 where !bytes.isEmpty: bytes.removeLast()
    case 4 where !bytes.isEmpty: bytes[bytes.count - 1] &+= 1
    case 5 where !bytes.isEmpty: bytes[Int(input.byte()) % bytes.count] ^= input.byte()
    case 6: bytes = input.take(Int(shape >> 3))
    case 7: bytes += [UInt8](repeating: input.byte(), count: Int(shape >> 3) * 8)
    default: break
    }
    return Key(bytes.prefix(StoreLimits.orderedKeyLengthBytes))
  }

  private func range(_ input: inout FuzzInput, _ name: String) -> KeyRange {
    let shape = input.byte()
    let one = shape & 1 == 0 ? nil : key(&input, name)
    let two = shape & 2 == 0 ? nil : key(&input, name)
    if let one, let two { return KeyRange(from: min(one, two), upTo: max(one, two)) }
    return KeyRange(from: one, upTo: two)
  }

  // MARK: Reads

  private func stepGet(_ input: inout FuzzInput) async throws {
    let name = anyKeyspace(&input)
    let key = key(&input, name)
    try await get(key, name)
    let keyspace = try store.keyspace(named: name)
    let isContained = try await attempt { try await keyspace.contains(key) }
    if isExact {
      try require(isContained == (model[name][key] != nil), "\(name): \(key) exists, or does not")
    }
  }

  private func stepRange(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    let range = range(&input, name)
    let shape = input.byte()
    let order = shape & 1 == 0 ? KeyOrder.ascending : .descending
    let limit = shape & 2 == 0 ? Int.max : Int(shape >> 2) * 8 + 1
    try await checkRange(name, range, order, limit: limit)
    let keyspace = try store.keyspace(named: name)
    let keys = try await attempt {
      try await keyspace.keys(in: range, order: order, limit: limit)
    }
    if isExact {
      try require(
        keys == model[name].keys(in: range, order, limit: limit), "\(name): other keys in a range")
    }
  }

  private func stepCount(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    let range = range(&input, name)
    try await checkCount(name, range)
    let keyspace = try store.keyspace(named: name)
    let keys = model[name].keys(in: range, .ascending, limit: .max)
    if let first = try await attempt({ try await keyspace.first(in: range) }) {
      try check(first, name, keys.first)
    }
    if let last = try await attempt({ try await keyspace.last(in: range) }) {
      try check(last, name, keys.last)
    }
  }

  private func stepNeighbours(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    let key = key(&input, name)
    let keyspace = try store.keyspace(named: name)
    let after = KeyRange(from: Key(key.bytes + [0]))
    if let next = try await attempt({ try await keyspace.entry(after: key) }) {
      try check(next, name, model[name].keys(in: after, .ascending, limit: 1).first)
    }
    if let previous = try await attempt({ try await keyspace.entry(before: key) }) {
      let before = KeyRange(upTo: key)
      try check(previous, name, model[name].keys(in: before, .descending, limit: 1).first)
    }
  }

  /// Walks over a range page by page.
  private func stepPages(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    let range = range(&input, name)
    let shape = input.byte()
    let order = shape & 1 == 0 ? KeyOrder.ascending : .descending
    let limit = Int(shape >> 1) + 1
    let keyspace = try store.keyspace(named: name)
    var entries: [Store.Entry] = []
    var page = try await attempt {
      try await keyspace.entries(in: range, order: order, limit: limit)
    }
    for _ in 0..<12 {
      entries += page?.entries ?? []
      guard let next = page?.next else { break }
      page = try await attempt { try await keyspace.entries(after: next, limit: limit) }
    }
    // Where entries are not in the order of their keys, a walk skips some or repeats some.
    guard page != nil else { return }
    try check(entries, name, model[name].keys(in: range, order, limit: limit * 12))
  }

  /// Moves a cursor of a snapshot, and a place in the model beside it.
  private func stepCursor(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    let range = range(&input, name)
    let store = store
    let found = try await attempt {
      try await store.snapshot().keyspace(named: name).cursor(in: range)
    }
    guard var cursor = found else { return }
    let keys = model[name].keys(in: range, .ascending, limit: .max)
    var place = 0
    for _ in 0..<Int(input.byte() & 15) {
      let move = input.byte()
      switch move & 7 {
      case 0...2:
        for _ in 0...move >> 5 {
          try check(try await attempt { try cursor.next() } ?? nil, name, keys, &place, 1)
        }
      case 3, 4:
        for _ in 0...move >> 5 {
          try check(try await attempt { try cursor.previous() } ?? nil, name, keys, &place, -1)
        }
      case 5:
        cursor.seekToEnd()
        place = keys.count
      case 6:
        cursor.seekToStart()
        place = 0
      default:
        let key = key(&input, name)
        guard try await attempt({ try cursor.seek(to: key) }) != nil else { return }
        place = keys.firstIndex { $0 >= key } ?? keys.count
      }
      if isExact {
        try require(
          cursor.remainingCount == keys.count - place, "\(name): a cursor counts other entries")
      }
    }
  }

  /// Checks the entry that a cursor has passed, and moves the place in the model.
  private func check(
    _ entry: Store.Entry?, _ name: String, _ keys: [Key], _ place: inout Int, _ step: Int
  ) throws {
    let index = step > 0 ? place : place - 1
    let isInside = keys.indices.contains(index)
    try check(entry, name, isInside ? keys[index] : nil)
    if isInside { place += step }
  }

  // MARK: Writes

  private mutating func note(_ value: [UInt8]?, _ key: Key, _ name: String) {
    if isExact { model.set(value, key, in: name) }
    acknowledged[name, default: [:]][key] = .some(value)
    if let value { written?.add(value, key, in: name) }
  }

  private mutating func stepSet(_ input: inout FuzzInput) async throws {
    let name = anyKeyspace(&input)
    let (key, value) = (key(&input, name), [input.byte(), 77])
    let keyspace = try store.keyspace(named: name)
    // A write that fails may be in the log nevertheless.
    written?.add(value, key, in: name)
    acknowledged[name]?[key] = nil
    guard try await attemptWrite({ try await keyspace.set(value, forKey: key) }) != nil else {
      return
    }
    note(value, key, name)
  }

  private mutating func stepRemove(_ input: inout FuzzInput) async throws {
    let name = anyKeyspace(&input)
    let key = key(&input, name)
    let keyspace = try store.keyspace(named: name)
    let last = acknowledged[name]?.removeValue(forKey: key)
    let answer = try await attemptWrite { try await keyspace.removeValue(forKey: key) }
    guard let sequence = answer else { return }
    if isExact {
      try require((sequence != nil) == (model[name][key] != nil), "a delete missed its key")
    }
    // A forged index may lack the key: then nothing was written.
    if sequence != nil || isExact { return note(nil, key, name) }
    if let last { acknowledged[name, default: [:]][key] = last }
  }

  private typealias Operation = (name: String, key: Key, value: [UInt8]?)

  private func operations(_ input: inout FuzzInput) -> [Operation] {
    (0..<Int(input.byte() & 15) + 1).map { number in
      let name = anyKeyspace(&input)
      let key = key(&input, name)
      return (name, key, input.byte() & 3 == 0 ? nil : [UInt8(number), 88])
    }
  }

  private mutating func prepare(_ operations: [Operation]) {
    for operation in operations {
      acknowledged[operation.name]?[operation.key] = nil
      guard let value = operation.value else { continue }
      written?.add(value, operation.key, in: operation.name)
    }
  }

  private mutating func finish(_ operations: [Operation]) {
    for (name, key, value) in operations {
      // A delete of a key that a forged index lacks writes nothing.
      if isExact || value != nil {
        note(value, key, name)
      } else {
        acknowledged[name]?[key] = nil
      }
    }
  }

  private mutating func stepBatch(_ input: inout FuzzInput) async throws {
    let operations = operations(&input)
    prepare(operations)
    let store = store
    let answer: Void? = try await attemptWrite {
      try await store.write { batch in
        for (name, key, value) in operations {
          let keyspace = try store.keyspace(named: name)
          if let value {
            try batch.set(value, forKey: key, in: keyspace)
          } else {
            try batch.removeValue(forKey: key, in: keyspace)
          }
        }
      }
    }
    if answer != nil { finish(operations) }
  }

  private mutating func stepRemoveRange(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    // A part of the keyspace: a removal appends a record for each key.
    let keys = model[name].keys
    let start = keys.isEmpty ? 0 : input.integer(byteCount: 2) % keys.count
    let end = min(start + Int(input.byte()) * 2, keys.count)
    guard start < end else { return }
    let range = KeyRange(from: keys[start], upTo: end < keys.count ? keys[end] : nil)
    let keyspace = try store.keyspace(named: name)
    acknowledged[name] = nil
    let count = try await attemptWrite { try await keyspace.removeAll(in: range) }
    guard isExact, let count else { return }
    try require(count == end - start, "\(name): \(count) keys were removed, not \(end - start)")
    for key in keys[start..<end] { model.set(nil, key, in: name) }
  }

  private mutating func stepTransaction(_ input: inout FuzzInput) async throws {
    let name = orderedKeyspace(&input)
    let range = range(&input, name)
    let (operations, read) = (operations(&input), key(&input, name))
    prepare(operations)
    let store = store
    let answer = try await attemptWrite {
      try await store.transaction { transaction in
        let keyspace = try store.keyspace(named: name)
        let value = try transaction.value(forKey: read, in: keyspace)
        let count = try transaction.count(in: range, of: keyspace)
        for (name, key, value) in operations {
          let keyspace = try store.keyspace(named: name)
          if let value {
            try transaction.set(value, forKey: key, in: keyspace)
          } else {
            try transaction.removeValue(forKey: key, in: keyspace)
          }
        }
        let last = try transaction.entries(
          in: range, of: keyspace, order: .descending, limit: 5)
        return (value, count, last)
      }
    }
    guard let (value, count, last) = answer else { return }
    if isExact {
      try require(value == model[name][read], "a transaction reads another value")
      try require(
        count == model[name].places(in: range).count, "a transaction counts other keys")
    }
    finish(operations)
    // The entries are those after the transaction's own writes.
    try check(last, name, model[name].keys(in: range, .descending, limit: 5))
  }

  /// Reads all live records in the order of their last changes, up to one that is written first.
  private mutating func stepFeed() async throws {
    let marker: Key = "marker of the feed"
    let store = store
    let answer = try await attemptWrite { try await store.set([42, 77], forKey: marker) }
    guard let sequence = answer else { return }
    note([42, 77], marker, "")
    let found: [String: [Key: [UInt8]]]? = try await attempt {
      var (found, last) = ([String: [Key: [UInt8]]](), UInt64(0))
      for try await change in store.contentsAndChanges() {
        try require(change.sequence.rawValue > last, "the changes do not rise")
        last = change.sequence.rawValue
        found[change.keyspace, default: [:]][change.key] = change.value
        if change.sequence >= sequence { break }
      }
      return found
    }
    guard isExact else { return }
    for name in OrderedFixture.ordered + OrderedFixture.hashed {
      let contents = found?[name] ?? [:]
      try require(contents == model[name].values, "\(name): the feed has other contents")
    }
  }
}
