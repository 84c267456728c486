import MoraineStorage
import MoraineTesting
import Testing

@testable import MoraineEngine

/// The trees of ordered keyspaces, compared with a dictionary that is sorted: random operations and
/// batches over keys of many shapes, in nodes of few entries, with snapshots held at random.
@Suite(.timeLimit(.minutes(10))) struct TreeIndexTests {
  /// The keys by address, in place of a log.
  struct Keys: TreeKeySource, ~Copyable {
    private(set) var keys: [[UInt8]] = []
    private let counter = Counter()
    /// Number of the key that cannot be read; nil when all can.
    var damaged: Int?

    final class Counter { var reads = 0 }

    var reads: Int { counter.reads }

    func key(at address: Address) throws(StoreError) -> UnsafeRawBufferPointer {
      counter.reads += 1
      let number = Self.number(address)
      if number == damaged { throw .corrupted("a planted damage", "test", at: number) }
      return keys[number].withUnsafeBytes { $0 }
    }

    mutating func add(_ key: [UInt8]) -> Address {
      keys.append(key)
      return Address(slot: 0, offset: (keys.count - 1) * 4)
    }

    func isCheapToRead(_ address: Address) -> Bool { true }

    func prefetch(_ address: Address) {}

    static func number(_ address: Address) -> Int { address.offset / 4 }
  }

  /// Shapes of keys: random, very short, paths, zeros, keys that share 300 bytes, decimal numbers,
  /// and runs of one byte.
  private static let shapes = 0..<7

  static func key(_ random: inout SeededGenerator, _ shape: Int) -> [UInt8] {
    func below(_ end: Int) -> Int { Int(random.next() % UInt64(end)) }
    switch shape {
    case 0: return (0..<16).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    case 1: return (0..<below(6)).map { _ in UInt8(below(3)) }
    case 2: return Array("app/user/\(below(40))/item/\(below(30))".utf8)
    case 3: return Array(repeating: 0, count: below(60))
    case 4: return Array(repeating: 7, count: 300 + below(3)) + (0..<3).map { _ in UInt8(below(4)) }
    case 5: return Array(String(10_000_000 + below(2000)).utf8)
    default: return Array(repeating: 9, count: below(300)) + [UInt8(below(3))]
    }
  }

  private static func sorted(_ model: [[UInt8]: Int]) -> [[UInt8]] {
    model.keys.sorted { $0.lexicographicallyPrecedes($1) }
  }

  /// Compares the entries of a tree, in both directions, with the model.
  static func expectEqual<Pages: TreePages & ~Copyable>(
    _ pages: borrowing Pages, _ root: TreeRoot, _ model: [[UInt8]: Int], _ replay: Comment
  ) throws {
    try #require(root.count == model.count, replay)
    guard root.hasPage else { return }
    let numbers = sorted(model).map { model[$0] }
    var cursor = pages.start(root)
    var forward: [Int?] = []
    while let address = pages.next(&cursor) { forward.append(Keys.number(address)) }
    let isForward = forward == numbers
    try #require(isForward, replay)
    cursor = pages.end(root)
    var backward: [Int?] = []
    while let address = pages.previous(&cursor) { backward.append(Keys.number(address)) }
    let isBackward = backward == numbers.reversed()
    try #require(isBackward, replay)
  }

  static let limits = [(4, 4), (8, 5), (40, 6), (Int.max, Int.max)]

  @Test(arguments: 0..<14 as Range<UInt64>)
  func treeEqualsASortedDictionary(seed: UInt64) throws {
    for (leaf, branch) in Self.limits {
      for mixed in [false, true] {
        let replay: Comment = "seed \(seed), nodes of \(leaf) and \(branch), mixed \(mixed)"
        var random = SeededGenerator(seed: seed)
        var tree = TreeIndex(leafLimit: leaf, branchLimit: branch)
        var keys = Keys()
        var model: [[UInt8]: Int] = [:]
        for step in 0..<1000 {
          let shape = mixed ? Int(random.next() % 7) : Int(seed % 7)
          let bytes = Self.key(&random, shape)
          // Phases of growth and of removal.
          let removes = random.next() % 10 < (step / 250 % 2 == 0 ? 2 : 8)
          try bytes.withUnsafeBytes { raw in
            let key = TreeKey(raw)
            let before = keys.reads
            let place = try tree.place(of: key, in: 1, keys)
            // Keys that differ only in zeros at their ends, or share 300 bytes, need more.
            if [0, 2, 5].contains(shape), !mixed {
              try #require(keys.reads - before <= 1, replay)
            }
            try #require(place.existing.map(Keys.number) == model[bytes], replay)
            if let existing = place.existing {
              let isHeld = tree.holds(existing, key, tree.root(1))
              try #require(isHeld, replay)
            }
            if removes {
              if place.existing != nil { tree.remove(place, in: 1, keys) }
              model[bytes] = nil
              return
            }
            let address = keys.add(bytes)
            if place.existing != nil {
              tree.replace(place, with: address)
            } else {
              tree.insert(key, address, at: place, in: 1, keys)
            }
            model[bytes] = Keys.number(address)
          }
          if step % 197 == 0 { try Self.expectEqual(tree, tree.root(1), model, replay) }
        }
        try Self.expectEqual(tree, tree.root(1), model, replay)
      }
    }
  }

  /// A frozen tree, and its expected contents.
  final class Moment {
    let trees: FrozenTrees
    let model: [[UInt8]: Int]

    init(_ trees: consuming FrozenTrees, _ model: [[UInt8]: Int]) {
      self.trees = trees
      self.model = model
    }
  }

  @Test(arguments: 0..<14 as Range<UInt64>)
  func batchesAndSnapshotsEqualSortedDictionaries(seed: UInt64) throws {
    for (leaf, branch) in Self.limits {
      let replay: Comment = "seed \(seed), nodes of \(leaf) and \(branch)"
      var random = SeededGenerator(seed: seed)
      var tree = TreeIndex(leafLimit: leaf, branchLimit: branch)
      var keys = Keys()
      var model: [[UInt8]: Int] = [:]
      var moments: [Moment] = []
      for step in 0..<120 {
        var batch: [[UInt8]: Bool] = [:]
        let size = 1 + random.next() % (random.next() % 20 == 0 ? 300 : 12)
        for _ in 0..<size {
          let shape = seed % 2 == 0 ? Int(seed / 2 % 7) : Int(random.next() % 7)
          batch[Self.key(&random, shape)] = random.next() % 10 < (step / 30 % 2 == 0 ? 2 : 7)
        }
        try Self.apply(batch, to: &tree, &keys, &model, replay)
        if random.next() % 12 == 0 { moments.append(Moment(tree.freeze(), model)) }
        if moments.count > 3 || (!moments.isEmpty && random.next() % 20 == 0) {
          let moment = moments.remove(at: Int(random.next() % UInt64(moments.count)))
          try check(moment, Self.key(&random, Int(random.next() % 7)), keys, replay)
        }
        if step % 17 == 0 { try Self.expectEqual(tree, tree.root(1), model, replay) }
      }
      try Self.expectEqual(tree, tree.root(1), model, replay)
    }
  }

  static func apply(
    _ batch: [[UInt8]: Bool], to tree: inout TreeIndex, _ keys: inout Keys,
    _ model: inout [[UInt8]: Int], _ replay: Comment
  ) throws {
    let sorted = batch.keys.sorted { $0.lexicographicallyPrecedes($1) }
    let copies = sorted.map { bytes in
      let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 8)
      copy.copyBytes(from: bytes)
      return copy
    }
    defer { for copy in copies { copy.deallocate() } }
    var edits: [TreeEdit] = []
    for (bytes, copy) in zip(sorted, copies) {
      let key = TreeKey(UnsafeRawBufferPointer(copy))
      let isSound = tree.validate(key, in: 1, neighbours: true)
      try #require(isSound, replay)
      let place = try tree.place(of: key, in: 1, keys)
      try #require(place.existing.map(Keys.number) == model[bytes], replay)
      if batch[bytes] == true {
        if place.existing != nil { edits.append(TreeEdit(key: key, place: place, address: nil)) }
        model[bytes] = nil
      } else {
        let address = keys.add(bytes)
        edits.append(TreeEdit(key: key, place: place, address: address))
        model[bytes] = Keys.number(address)
      }
    }
    let isApplied = tree.apply(edits, in: 1, keys)
    #expect(isApplied, replay)
  }

  private func check(
    _ moment: Moment, _ probe: [UInt8], _ keys: borrowing Keys, _ replay: Comment
  ) throws {
    let root = moment.trees.root(1)
    try Self.expectEqual(moment.trees, root, moment.model, replay)
    guard root.hasPage else { return }
    let rank = try probe.withUnsafeBytes { raw in
      let cursor = try moment.trees.seek(TreeKey(raw), root, keys)
      return moment.trees.rank(cursor)
    }
    let expected = moment.model.keys.count { $0.lexicographicallyPrecedes(probe) }
    try #require(rank == expected, replay)
  }

  /// A key that cannot be read stops only the search that it decides.
  @Test func damagedKeyDoesNotStopTheInsertionOfOthers() throws {
    var tree = TreeIndex()
    var keys = Keys()
    func insert(_ text: String, _ tree: inout TreeIndex, _ keys: inout Keys) throws {
      let bytes = Array(text.utf8)
      try bytes.withUnsafeBytes { raw in
        let place = try tree.place(of: TreeKey(raw), in: 1, keys)
        tree.insert(TreeKey(raw), keys.add(bytes), at: place, in: 1, keys)
      }
    }
    for number in 0..<200 { try insert("path/\(100 + number)/0000000", &tree, &keys) }
    keys.damaged = 7
    #expect(throws: StoreError.self) { try insert("path/107/0000001", &tree, &keys) }
    // Leaves split and their prefixes become longer, but for the leaf with the damaged key.
    for number in 200..<900 { try insert("path/\(100 + number)/0000000", &tree, &keys) }
    #expect(tree.root(1).count == 900)
  }

  /// Regression: an ascending batch of tied keys made leaves of one entry.
  @Test(arguments: [1, 100, 1000, 10_000])
  func ascendingBatchesFillTheirLeaves(batchSize: Int) throws {
    var tree = TreeIndex()
    var keys = Keys()
    var model: [[UInt8]: Int] = [:]
    let all = (0..<20_000).map { Array("app/user/\(100_000 + $0 / 16)/item/\($0 % 16 + 10)".utf8) }
    for start in stride(from: 0, to: all.count, by: batchSize) {
      let part = all[start..<min(start + batchSize, all.count)]
      try Self.apply(
        Dictionary(uniqueKeysWithValues: part.map { ($0, false) }), to: &tree, &keys, &model, "put")
    }
    #expect(tree.root(1).count == all.count)
    #expect(tree.byteCount <= all.count * 18)
    #expect(tree.root(1).height <= 2)
  }

  /// Regression: a batch that emptied a tree of several leaves kept all but one of its pages.
  @Test func batchThatRemovesEveryKeyReleasesEveryPage() throws {
    var tree = TreeIndex(leafLimit: 4, branchLimit: 4)
    var keys = Keys()
    var model: [[UInt8]: Int] = [:]
    let all = (0..<300).map { Array("key\($0)".utf8) }
    try Self.apply(
      Dictionary(uniqueKeysWithValues: all.map { ($0, false) }), to: &tree, &keys, &model, "put")
    #expect(tree.root(1).count == 300 && tree.root(1).height > 2)
    try Self.apply(
      Dictionary(uniqueKeysWithValues: all.map { ($0, true) }), to: &tree, &keys, &model, "remove")
    #expect(tree.root(1) == TreeRoot())
    #expect(tree.pageCount == 0)
  }

  /// An empty tree has no page.
  @Test func removingEveryKeyReleasesEveryPage() throws {
    var tree = TreeIndex(leafLimit: 4, branchLimit: 4)
    var keys = Keys()
    let all = (0..<500).map { Array("key\($0)".utf8) }
    for bytes in all {
      try bytes.withUnsafeBytes { raw in
        let place = try tree.place(of: TreeKey(raw), in: 1, keys)
        tree.insert(TreeKey(raw), keys.add(bytes), at: place, in: 1, keys)
      }
    }
    #expect(tree.root(1).height > 3)
    for bytes in all {
      try bytes.withUnsafeBytes { raw in
        tree.remove(try tree.place(of: TreeKey(raw), in: 1, keys), in: 1, keys)
      }
    }
    #expect(tree.root(1) == TreeRoot())
    #expect(tree.pageCount == 0)
  }
}
