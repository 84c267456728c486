import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Trees that are written to a checkpoint and loaded from it, again and again, between random
/// operations.
@Suite(.timeLimit(.minutes(10))) struct LoadedTreeTests {
  private typealias Keys = TreeIndexTests.Keys

  /// Returns a tree after a checkpoint and an opening.
  ///
  /// - Parameters:
  ///   - end: the end of the segments that the checkpoint covers.
  ///   - damage: changes the bytes of the checkpoint.
  private static func reloaded(
    _ tree: inout TreeIndex, isMapped: Bool = true, _ replay: Comment, end: UInt64 = 1 << 30,
    damage: (any StorageFile) throws -> Void = { _ in }
  ) throws -> TreeIndex {
    try require(tree.validateAllPages(), replay)
    let storage = MemoryStorage()
    try storage.createDirectory("store")
    let directory = try #require(try storage.openDirectory("store"))
    var header = CheckpointHeader.covering(upTo: end)
    header.keyspaces = nil
    var index = try HashIndex()
    let image = CheckpointImage(header, of: &index, &tree)
    let file = try directory.createFile("checkpoint")
    try image.write(to: file)
    try damage(file)
    let pages = try CheckpointFile.open(
      "checkpoint", directory, mapped: isMapped, logBytes: 1 << 40)
    guard let pages,
      let loaded = try TreeIndex(
        pages, ordered: tree.ordered, leafLimit: tree.leafLimit, branchLimit: tree.branchLimit)
    else { throw StoreError(.corrupted, "the checkpoint was not accepted") }
    return loaded
  }

  private static func require(_ condition: Bool, _ replay: Comment) throws {
    try #require(condition, replay)
  }

  private static let one = OrderedKeyspaces([1])

  @Test(arguments: 0..<14 as Range<UInt64>)
  func loadedTreeEqualsASortedDictionary(seed: UInt64) throws {
    for (leaf, branch) in TreeIndexTests.limits {
      let replay: Comment = "seed \(seed), nodes of \(leaf) and \(branch)"
      var random = SeededGenerator(seed: seed)
      var tree = TreeIndex(ordered: Self.one, leafLimit: leaf, branchLimit: branch)
      var keys = Keys()
      var model: [[UInt8]: Int] = [:]
      for step in 0..<900 {
        let shape = seed % 2 == 0 ? Int(seed / 2 % 7) : Int(random.next() % 7)
        let bytes = TreeIndexTests.key(&random, shape)
        let removes = random.next() % 10 < (step / 200 % 2 == 0 ? 2 : 8)
        try bytes.withUnsafeBytes { raw in
          let key = TreeKey(raw)
          try Self.require(tree.validate(key, in: 1, neighbours: true), replay)
          let place = try tree.place(of: key, in: 1, keys)
          try #require(place.existing.map(Keys.number) == model[bytes], replay)
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
        if random.next() % 60 == 0 {
          tree = try Self.reloaded(&tree, isMapped: step % 2 == 0, replay)
        }
        if random.next() % 150 == 0 { try Self.expectRange(tree, model, keys, &random, replay) }
        if random.next() % 200 == 0 {
          while tree.hasUnvalidatedPages { try Self.require(tree.validateNextPages(3), replay) }
          try TreeIndexTests.expectEqual(tree, tree.root(1), model, replay)
        }
      }
      try Self.require(tree.validateAllPages(), replay)
      try TreeIndexTests.expectEqual(tree, tree.root(1), model, replay)
    }
  }

  /// Batches change a tree of which only the nodes that they need were validated.
  @Test(arguments: 0..<14 as Range<UInt64>)
  func batchesOnALoadedTreeEqualASortedDictionary(seed: UInt64) throws {
    for (leaf, branch) in TreeIndexTests.limits {
      let replay: Comment = "seed \(seed), nodes of \(leaf) and \(branch)"
      var random = SeededGenerator(seed: seed)
      var tree = TreeIndex(ordered: Self.one, leafLimit: leaf, branchLimit: branch)
      var keys = Keys()
      var model: [[UInt8]: Int] = [:]
      for step in 0..<250 {
        var batch: [[UInt8]: Bool] = [:]
        let size = 1 + random.next() % (random.next() % 9 == 0 ? 200 : 8)
        // Neighbours are removed together, so that whole branches become empty.
        let removes = step / 25 % 2 == 1
        let sorted = model.keys.sorted { $0.lexicographicallyPrecedes($1) }
        let first = sorted.isEmpty ? 0 : Int(random.next() % UInt64(sorted.count))
        for number in 0..<Int(size) {
          if removes, first + number < sorted.count {
            batch[sorted[first + number]] = true
          } else {
            let shape = seed % 2 == 0 ? Int(seed / 2 % 7) : Int(random.next() % 7)
            batch[TreeIndexTests.key(&random, shape)] = false
          }
        }
        try TreeIndexTests.apply(batch, to: &tree, &keys, &model, replay)
        if random.next() % 8 == 0 {
          tree = try Self.reloaded(&tree, isMapped: step % 2 == 0, replay)
          try #require(tree.root(1).count == model.count, replay)
        }
      }
      try Self.require(tree.validateAllPages(), replay)
      try TreeIndexTests.expectEqual(tree, tree.root(1), model, replay)
    }
  }

  /// Compares some entries of a range with the model, after only the nodes for them were validated.
  private static func expectRange(
    _ tree: borrowing TreeIndex, _ model: [[UInt8]: Int], _ keys: borrowing Keys,
    _ random: inout SeededGenerator, _ replay: Comment
  ) throws {
    let bounds = (0..<2).map { _ in TreeIndexTests.key(&random, Int(random.next() % 7)) }
      .sorted { $0.lexicographicallyPrecedes($1) }
    let lower = random.next() % 3 == 0 ? nil : Key(bounds[0])
    let upper = random.next() % 3 == 0 ? nil : Key(bounds[1])
    let range = KeyRange(from: lower, upTo: upper)
    let order: KeyOrder = random.next() % 2 == 0 ? .ascending : .descending
    let limit = Int(random.next() % 40)
    try require(tree.validate(range, order, limit: limit, in: 1), replay)
    guard tree.root(1).hasPage else { return }
    func cursor(_ bound: Key?) throws -> TreeCursor? {
      try bound?.bytes.withUnsafeBytes { try tree.seek(TreeKey($0), tree.root(1), keys) }
    }
    let start = try cursor(lower) ?? tree.start(tree.root(1))
    let end = try cursor(upper) ?? tree.end(tree.root(1))
    let inside = model.keys.filter { range.contains(Key($0)) }
      .sorted { $0.lexicographicallyPrecedes($1) }
    try #require(tree.rank(end) - tree.rank(start) == inside.count, replay)
    var position = order == .ascending ? start : end
    let expected = (order == .ascending ? inside : inside.reversed()).prefix(limit)
    for key in expected {
      let address = order == .ascending ? tree.next(&position) : tree.previous(&position)
      try #require(address.map(Keys.number) == model[key], replay)
    }
  }

  /// Removing the entries of segments that no longer exist keeps all others in their order.
  @Test(arguments: 0..<7 as Range<UInt64>)
  func entriesOfRemovedSegmentsLeaveTheOthers(seed: UInt64) throws {
    for (leaf, branch) in TreeIndexTests.limits {
      let replay: Comment = "seed \(seed), nodes of \(leaf) and \(branch)"
      var random = SeededGenerator(seed: seed)
      var tree = TreeIndex(ordered: Self.one, leafLimit: leaf, branchLimit: branch)
      var keys = Keys()
      var slots: [[UInt8]: (slot: Int, number: Int)] = [:]
      for _ in 0..<600 {
        let bytes = TreeIndexTests.key(&random, Int(seed))
        try bytes.withUnsafeBytes { raw in
          let place = try tree.place(of: TreeKey(raw), in: 1, keys)
          if place.existing != nil { return }
          let offset = keys.add(bytes).offset
          // Whole stretches of keys lie in one segment, so that whole branches become empty.
          let slot = bytes.first.map { Int($0) / 16 % 4 } ?? 0
          tree.insert(
            TreeKey(raw), Address(slot: slot, offset: offset), at: place, in: 1, keys)
          slots[bytes] = (slot, offset / 4)
        }
      }
      tree = try Self.reloaded(&tree, replay)
      try Self.require(tree.validateAllPages(), replay)
      let gone: Set<Int> = seed == 6 ? [0, 1, 2, 3] : [Int(random.next() % 4), 1]
      tree.removeAll(in: gone)
      let left = slots.filter { !gone.contains($0.value.slot) }.mapValues(\.number)
      try TreeIndexTests.expectEqual(tree, tree.root(1), left, replay)
      try #require(tree.count == left.count, replay)
      tree = try Self.reloaded(&tree, replay)
      for bytes in slots.keys where left[bytes] == nil {
        try bytes.withUnsafeBytes { raw in
          try Self.require(tree.validate(TreeKey(raw), in: 1, neighbours: true), replay)
          let place = try tree.place(of: TreeKey(raw), in: 1, keys)
          tree.insert(
            TreeKey(raw), Address(slot: 0, offset: slots[bytes]!.number * 4), at: place, in: 1, keys
          )
        }
      }
      try Self.require(tree.validateAllPages(), replay)
      try TreeIndexTests.expectEqual(tree, tree.root(1), slots.mapValues(\.number), replay)
    }
  }

  /// A damaged node is found by a range that reaches it, by a look-up of its keys, and by a change
  /// of a neighbour. The tree is so large that loading checks only its end.
  @Test(arguments: 0..<12 as Range<UInt64>)
  func damagedNodeIsFoundByWhateverReadsIt(seed: UInt64) throws {
    let replay: Comment = "seed \(seed)"
    var random = SeededGenerator(seed: seed)
    var tree = TreeIndex(ordered: Self.one, leafLimit: 4, branchLimit: 4)
    var keys = Keys()
    let all = (0..<6000).map { Array(String(100_000 + $0).utf8) }
    for bytes in all {
      try bytes.withUnsafeBytes { raw in
        let place = try tree.place(of: TreeKey(raw), in: 1, keys)
        tree.insert(TreeKey(raw), keys.add(bytes), at: place, in: 1, keys)
      }
    }
    let whole = try Self.reloaded(&tree, replay)
    let header = try #require(whole.loaded?.header)
    let mapped = header.nodeCount / 512 * 512
    try #require(mapped >= 512, replay)
    let place =
      header.treeOffset + Int(random.next() % UInt64(mapped)) * CheckpointHeader.nodeBytes
      + Int(random.next() % 200)
    var loaded = try Self.reloaded(&tree, isMapped: seed % 2 == 0, replay) { file in
      try [0xA5].withUnsafeBytes { try file.write($0, at: UInt64(place)) }
    }
    let order: KeyOrder = seed % 3 == 0 ? .descending : .ascending
    let isWholeSound = loaded.validate(KeyRange(), order, limit: .max, in: 1)
    #expect(!isWholeSound, replay)
    let again = try Self.reloaded(&tree, replay) { file in
      try [0xA5].withUnsafeBytes { try file.write($0, at: UInt64(place)) }
    }
    let isFound = all.contains { bytes in
      bytes.withUnsafeBytes { !again.validate(TreeKey($0), in: 1, neighbours: false) }
    }
    #expect(isFound, replay)
    let areAllSound = loaded.validateAllPages()
    #expect(!areAllSound, replay)
  }

  /// Regression: a range with bounds read the nodes at the edges of the tree, which the range does
  /// not need and which were not validated.
  @Test(arguments: [true, false])
  func rangeWithBoundsReadsNoNodeBesideThem(isMapped: Bool) throws {
    let replay: Comment = "a damaged node at an edge"
    var tree = TreeIndex(ordered: Self.one, leafLimit: 4, branchLimit: 4)
    var keys = Keys()
    try Self.insert(100_000..<106_000, into: &tree, &keys)
    let whole = try Self.reloaded(&tree, replay)
    let header = try #require(whole.loaded?.header)
    let root = whole.root(1)
    // The lowest branch at each edge. Loading checks the last chunk, and the pages of the root.
    let edges = [true, false].map { isEnd in
      var (node, index) = (root.node, 0)
      for level in stride(from: root.height, to: 0, by: -1) {
        index = isEnd ? TreeBranch(whole.page(node)).childCount - 1 : 0
        if level > 1 { node = TreeBranch(whole.page(node)).child(index) }
      }
      return (node: node, index: index)
    }
    let mapped = header.nodeCount / 512 * 512
    let edge = try #require(
      edges.first { $0.node / 16 != root.node / 16 && $0.node < mapped }, replay)
    let childCount = TreeBranch(whole.page(edge.node)).childCount
    let place =
      header.treeOffset + edge.node * CheckpointHeader.nodeBytes + 16
      + (childCount - 1 + edge.index) * 4
    let loaded = try Self.reloaded(&tree, isMapped: isMapped, replay) { file in
      try withUnsafeBytes(of: UInt32(0x0FFF_FFFF).littleEndian) {
        try file.write($0, at: UInt64(place))
      }
    }
    let range = KeyRange(from: Key("103000"), upTo: Key("103010"))
    try Self.require(loaded.validate(range, .ascending, limit: 10, in: 1), replay)
    var walk = try #require(
      try RangeWalk(range, .ascending, loaded, loaded.root(1), in: 1, keys), replay)
    for number in 3000..<3010 {
      #expect(walk.next(loaded).map(Keys.number) == number, replay)
    }
    #expect(walk.next(loaded) == nil, replay)
  }

  /// Adds the numbers' digits to a tree, in order.
  private static func insert(
    _ numbers: Range<Int>, into tree: inout TreeIndex, _ keys: inout Keys
  ) throws {
    for number in numbers {
      let bytes = Array(String(number).utf8)
      try bytes.withUnsafeBytes { raw in
        let place = try tree.place(of: TreeKey(raw), in: 1, keys)
        tree.insert(TreeKey(raw), keys.add(bytes), at: place, in: 1, keys)
      }
    }
  }

  /// An entry can only name a record that the checkpoint covers.
  @Test func entryOfAnUncoveredRecordFailsValidation() throws {
    var tree = TreeIndex(ordered: Self.one)
    var keys = Keys()
    try Self.insert(1000..<2000, into: &tree, &keys)
    var covered = try Self.reloaded(&tree, "covered", end: 4000)
    let isValid = covered.validateAllPages()
    #expect(isValid)
    var uncovered = try Self.reloaded(&tree, "all but the last record", end: 3996)
    let isForgedValid = uncovered.validateAllPages()
    #expect(!isForgedValid)
  }

  /// No key of an ordered keyspace needs a longer separator.
  @Test(arguments: [(512, true), (513, false)])
  func separatorHasAtMost512Bytes(length: Int, isAllowed: Bool) {
    let wordCount = CheckpointHeader.nodeBytes / 8
    let page = UnsafeMutablePointer<UInt64>.allocate(capacity: wordCount)
    defer { page.deallocate() }
    page.initialize(repeating: 0, count: wordCount)
    var contents = TreeBranch.Contents()
    contents.separators = [[UInt8](repeating: 1, count: length)]
    contents.children = [1, 2]
    contents.counts = [3, 4]
    let branch = TreeBranch(page)
    branch.write(contents, 0..<2, level: 1)
    let isSound = branch.isSound(level: 1, count: 7, CheckpointTrees.Bounds())
    #expect(isSound == isAllowed)
  }

  /// A look-up in a loaded tree validates the nodes of its path only.
  @Test func firstLookUpValidatesOnePath() throws {
    var tree = TreeIndex(ordered: Self.one)
    var keys = Keys()
    try Self.insert(10_000_000..<10_100_000, into: &tree, &keys)
    let height = tree.root(1).height
    let loaded = try Self.reloaded(&tree, "in order")
    #expect(loaded.loaded?.validatedCount == 0)
    try Array("10077777".utf8).withUnsafeBytes { raw in
      try Self.require(loaded.validate(TreeKey(raw), in: 1, neighbours: false), "look-up")
      #expect(try loaded.place(of: TreeKey(raw), in: 1, keys).existing != nil)
    }
    #expect(loaded.loaded?.validatedCount == height + 1)
  }
}
