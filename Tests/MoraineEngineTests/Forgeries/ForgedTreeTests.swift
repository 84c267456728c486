import MoraineFormat
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Index checkpoints with right checksums and false trees: the log is unchanged, and nothing traps
/// or loops for ever.
@Suite(.timeLimit(.minutes(10))) struct ForgedTreeTests {
  /// The tree pages of a checkpoint, as a forger changes them.
  struct Forged {
    var header: CheckpointHeader
    var bytes: [UInt8]

    var root: Int { node(Int(header.trees[0].root)) }
    var childCount: Int { Int(bytes.load(UInt16.self, at: root)) }
    /// Place of a child's number in the root: after the heads of the separators.
    func child(_ index: Int) -> Int { root + 16 + (childCount - 1) * 4 + index * 4 }
    func count(_ index: Int) -> Int { child(index) + childCount * 4 }
    var ends: Int { count(childCount) }
    func node(_ number: Int) -> Int { header.treeOffset + number * CheckpointHeader.nodeBytes }
    func leaf(_ index: Int) -> Int { node(Int(bytes.load(UInt32.self, at: child(index)))) }
  }

  struct Lie: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let tell: @Sendable (inout Forged) -> Void

    init(_ name: String, _ tell: @escaping @Sendable (inout Forged) -> Void) {
      testDescription = name
      self.tell = tell
    }
  }

  private static let lies = [
    Lie("a child in two places") { $0.copy(4, from: $0.child(0), to: $0.child(1)) },
    Lie("a circle") { $0.bytes.store($0.header.trees[0].root, at: $0.child(1)) },
    Lie("a child that does not exist") { $0.bytes.store(UInt32.max, at: $0.child(1)) },
    Lie("a child after the last node") { $0.bytes.store($0.header.nodeCount, at: $0.child(1)) },
    Lie("a count that is too large") { $0.add(1, at: $0.count(1)) },
    Lie("counts that differ from the leaves") {
      $0.add(1, at: $0.count(1))
      $0.add(UInt32.max, at: $0.count(2))
    },
    Lie("no children") { $0.bytes.store(UInt16(0), at: $0.root) },
    Lie("more children than fit") { $0.bytes.store(UInt16(2000), at: $0.root) },
    Lie("a root that is a leaf") { $0.bytes.store(UInt16(0), at: $0.root + 2) },
    Lie("a prefix that is longer than the page") { $0.bytes.store(UInt16(5000), at: $0.root + 4) },
    Lie("a separator that ends after the page") { $0.bytes.store(UInt16.max, at: $0.ends + 2) },
    Lie("a separator without an order") { $0.bytes[$0.root + 16] = 255 },
    Lie("a leaf with more entries than fit") { $0.bytes.store(UInt16(391), at: $0.leaf(1)) },
    Lie("a leaf that is a branch") { $0.bytes.store(UInt16(1), at: $0.leaf(1) + 2) },
    Lie("a leaf with a long prefix") { $0.bytes.store(UInt16(45), at: $0.leaf(1) + 4) },
    Lie("a leaf with unknown flags") { $0.bytes.store(UInt16(7), at: $0.leaf(1) + 6) },
    Lie("a leaf without order") { $0.bytes.store(UInt32(0), at: $0.leaf(1) + 192 + 80) },
    Lie("a leaf with a false sample") { $0.bytes.store(UInt32.max, at: $0.leaf(1) + 64) },
    Lie("a tree that is too high") { $0.header.trees[0].height = 200 },
    Lie("a tree that is higher than it is") { $0.header.trees[0].height += 1 },
    Lie("a root that does not exist") { $0.header.trees[0].root = $0.header.nodeCount },
    Lie("a tree of another keyspace") { $0.header.trees[0].keyspace = 9 },
    Lie("a tree with an entry more") { $0.header.trees[0].entryCount += 1 },
    Lie("no tree") { $0.header.trees = [] },
  ]

  private static var configuration: Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 32 << 10)
    configuration.ordersKeyspaces = false
    configuration.checkpointFloorBytes = 0
    configuration.compaction = .manual
    return configuration
  }

  private static let keys = (0..<1500).map { Key("path/\($0 % 3)/\(1000 + $0)") }.sorted()

  private static func value(_ key: Key) -> [UInt8] { Array(key.bytes.reversed()) }

  /// A closed store with a checkpoint.
  private static func store() async throws -> TestDirectory {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: configuration) { store in
      let keyspace = try store.orderedKeyspace(named: "paths")
      try await store.write { batch in
        for key in keys { try batch.set(value(key), forKey: key, in: keyspace) }
      }
      // Records that a forged tree must not return.
      let other = try store.keyspace(named: "other")
      for number in 0..<300 { try await other.set([7], forKey: Key("path/\(number)")) }
      for number in 0..<50 { try await other.removeValue(forKey: Key("path/\(number)")) }
    }
    return directory
  }

  @Test(arguments: lies)
  func treeWithForgedNodesIsNotUsed(_ lie: Lie) async throws {
    let directory = try await Self.store()
    try CheckpointForgery(directory: directory).change { header, bytes in
      var forged = Forged(header: header, bytes: bytes)
      try #require(header.trees.count == 1 && header.trees[0].height == 1)
      lie.tell(&forged)
      (header, bytes) = (forged.header, forged.bytes)
      header.pageChecksums = Array(
        repeating: 0,
        count: header.bucketPageCount + header.overflowPageCount + header.treePageCount)
    }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    let keyspace = try store.orderedKeyspace(named: "paths")
    for key in Self.keys {
      #expect(try await keyspace.value(forKey: key) == Self.value(key), "\(key)")
    }
    #expect(try await keyspace.keys(limit: 5000) == Self.keys)
    for bound in stride(from: 100, to: 1500, by: 100) {
      #expect(try await keyspace.count(in: ..<Self.keys[bound]) == bound)
    }
    for key in Self.keys where key.bytes.last == 48 { try await keyspace.removeValue(forKey: key) }
    #expect(try await keyspace.count(in: .all) == 1350)
    try await store.compact()
    #expect(try await store.verify().isSound)
    try await store.close()
  }

  /// Random changes of the entries, which no check of a node can see: no operation traps, and no
  /// look-up returns the value of another key.
  @Test(arguments: 0..<40 as Range<UInt64>)
  func treeWithForgedEntriesReturnsNoValueOfAnotherKey(seed: UInt64) async throws {
    let replay: Comment = "seed \(seed)"
    var random = SeededGenerator(seed: seed)
    let directory = try await Self.store()
    try CheckpointForgery(directory: directory).change { header, bytes in
      let forged = Forged(header: header, bytes: bytes)
      for _ in 0..<1 + random.next() % 60 {
        let leaf = forged.leaf(Int(random.next() % UInt64(forged.childCount)))
        // Addresses and, in these leaves with tied keys, the lengths that keys share.
        let place = leaf + 192 + 324 * 4 + Int(random.next() % UInt64(324 * 8))
        bytes[place] = UInt8(truncatingIfNeeded: random.next() >> 8)
        // Two entries exchanged, in half of the seeds, also with those of another leaf.
        guard seed % 2 == 0 else { continue }
        let other = forged.leaf(Int(random.next() % UInt64(forged.childCount)))
        let (one, two) = (Int(random.next() % 200), Int(random.next() % 200))
        for byte in 0..<6 {
          bytes.swapAt(
            leaf + 192 + 324 * 4 + one * 6 + byte, other + 192 + 324 * 4 + two * 6 + byte)
        }
      }
    }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    let keyspace = try store.orderedKeyspace(named: "paths")
    for _ in 0..<300 {
      let key = Self.keys[Int(random.next() % 1500)]
      await Self.attempt(replay) {
        switch random.next() % 6 {
        case 0: try await keyspace.set(Self.value(key), forKey: key)
        case 1: try await keyspace.removeValue(forKey: key)
        case 2:
          let keys = (0..<20).map { _ in Self.keys[Int(random.next() % 1500)] }
          try await store.write { batch in
            for key in keys { try batch.set(Self.value(key), forKey: key, in: keyspace) }
          }
        case 3:
          let page = try await keyspace.entries(in: key..., limit: 30)
          for entry in page.entries { #expect(entry.value == Self.value(entry.key), replay) }
          if let token = page.next { _ = try await keyspace.entries(after: token, limit: 9) }
        default:
          let value = try await keyspace.value(forKey: key)
          #expect(value == nil || value == Self.value(key), replay)
        }
      }
    }
    await Self.attempt(replay) { try await keyspace.removeAll(in: Self.keys[9]..<Self.keys[700]) }
    await Self.attempt(replay) { try await store.compact() }
    await Self.attempt(replay) { _ = try await store.verify() }
    await Self.attempt(replay) { try await store.close() }
  }

  /// An entry whose address was replaced by that of another keyspace's record, which has the same
  /// key and is not damaged. Regression: a look-up among tied keys returned that record's value.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func entryThatNamesARecordOfAnotherKeyspaceIsDamage(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try await Self.store()
    var configuration = Self.configuration
    configuration.ioMode = mode
    let key = Self.keys[400]
    var places: [UInt64] = []
    try await withStore(at: directory.path, configuration: configuration) { store in
      try await store.keyspace(named: "other").set([8], forKey: key)
      let snapshot = try await store.snapshot()
      for name in ["paths", "other"] {
        let number = try #require(snapshot.keyspace(named: name).number)
        let state = try #require(snapshot.state)
        try key.bytes.withBytes { bytes in
          let hash = state.segments.hash(bytes, number)
          let found = try state.reading { () throws(StoreError) in
            try state.record(bytes, number, hash: hash)?.address.rawValue
          }
          places.append(try #require(found))
        }
      }
    }
    try CheckpointForgery(directory: directory).change { header, bytes in
      let forged = Forged(header: header, bytes: bytes)
      var changes = 0
      for leaf in (0..<forged.childCount).map({ forged.leaf($0) }) {
        for place in stride(from: leaf + 192 + 324 * 4, to: leaf + 192 + 324 * 10, by: 6) {
          let low = UInt64(bytes.load(UInt32.self, at: place))
          guard low | UInt64(bytes.load(UInt16.self, at: place + 4)) << 32 == places[0] else {
            continue
          }
          bytes.store(UInt32(truncatingIfNeeded: places[1]), at: place)
          bytes.store(UInt16(truncatingIfNeeded: places[1] >> 32), at: place + 4)
          changes += 1
        }
      }
      try #require(changes == 1)
    }
    let store = try Store(at: directory.path, configuration: configuration)
    let keyspace = try store.orderedKeyspace(named: "paths")
    let snapshot = try await keyspace.snapshot()
    var codes: [StoreError.Code] = []
    do throws(StoreError) { _ = try await keyspace.value(forKey: key) } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try snapshot.value(forKey: key) } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { _ = try await keyspace.entries(limit: 5000) } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { try snapshot.scanKeys(in: .all) { _ in true } } catch {
      codes.append(error.code)
    }
    do throws(StoreError) { try snapshot.scanSpans(in: .all) { _, _ in true } } catch {
      codes.append(error.code)
    }
    #expect(codes == Array(repeating: .corrupted, count: 5))
    try await store.close()
  }

  /// Every key is found, whatever the leaf says of two tied keys beyond the byte in which they
  /// differ. Regression: verifying called the store sound, and the next key came to a place after
  /// a greater one.
  @Test func verifyingFindsALeafThatDescribesOtherKeys() async throws {
    let directory = try TestDirectory()
    let common = String(repeating: "x", count: 60)
    let keys = [Key(common + "a1"), Key(common + "b2")]
    try await withStore(at: directory.path, configuration: Self.configuration) { store in
      let keyspace = try store.orderedKeyspace(named: "paths")
      for key in keys { try await keyspace.set([1], forKey: key) }
    }
    try CheckpointForgery(directory: directory).change { header, bytes in
      let leaf = header.treeOffset
      let prefixLength = Int(bytes.load(UInt16.self, at: leaf + 4))
      #expect(Int(bytes[leaf + 3432 + 1]) == 60 - prefixLength)
      #expect(bytes[leaf + 3756 + 1] == UInt8(ascii: "b"))
      bytes[leaf + 3432 + 1] += 1
      bytes[leaf + 3756 + 1] = UInt8(ascii: "2")
    }
    let store = try Store(at: directory.path, configuration: Self.configuration)
    let keyspace = try store.orderedKeyspace(named: "paths")
    #expect(try await keyspace.keys(limit: 5) == keys)
    let problems = try await store.verify().problems
    #expect(problems.map(\.code) == [.corrupted])
    #expect(problems.first?.message.contains("describes other keys") == true)
    try await store.close()
  }

  private static func attempt(_ replay: Comment, _ body: () async throws -> Void) async {
    do { try await body() } catch {
      let codes: [StoreError.Code] = [.corrupted, .newerFormat, .poisoned]
      #expect((error as? StoreError).map { codes.contains($0.code) } == true, "\(error); \(replay)")
    }
  }
}

extension ForgedTreeTests.Forged {
  mutating func copy(_ count: Int, from: Int, to: Int) {
    for index in 0..<count { bytes[to + index] = bytes[from + index] }
  }

  mutating func add(_ difference: UInt32, at place: Int) {
    bytes.store(bytes.load(UInt32.self, at: place) &+ difference, at: place)
  }
}
