import MoraineTesting
import Testing

@testable import MoraineEngine

/// Full leaves whose keys their heads distinguish: they give entries to a neighbour, or are divided.
@Suite(.timeLimit(.minutes(5))) struct TreeSplitTests {
  typealias Keys = TreeIndexTests.Keys

  private static func insert(
    _ bytes: [UInt8], into tree: inout TreeIndex, _ keys: inout Keys, _ model: inout [[UInt8]: Int]
  ) throws {
    try bytes.withUnsafeBytes { raw in
      let key = TreeKey(raw)
      let place = try tree.place(of: key, in: 1, keys)
      guard place.existing == nil else { return }
      let address = keys.add(bytes)
      tree.insert(key, address, at: place, in: 1, keys)
      model[bytes] = Keys.number(address)
    }
  }

  /// Checks how many keys the branches count before each of some keys.
  private static func expectRanks<Pages: TreePages & ~Copyable>(
    _ pages: borrowing Pages, _ root: TreeRoot, _ model: [[UInt8]: Int], _ keys: borrowing Keys,
    _ replay: Comment
  ) throws {
    let sorted = model.keys.sorted { $0.lexicographicallyPrecedes($1) }
    for (number, bytes) in sorted.enumerated() where number % 37 == 0 {
      let rank = try bytes.withUnsafeBytes { raw in
        pages.rank(try pages.seek(TreeKey(raw), root, keys))
      }
      try #require(rank == number, replay)
    }
  }

  private static func expectUnchanged(
    _ moment: TreeIndexTests.Moment, _ replay: Comment
  ) throws {
    try TreeIndexTests.expectEqual(moment.trees, moment.trees.root(1), moment.model, replay)
  }

  /// Random numbers: keys with a common prefix, most of them with heads of their own; between
  /// snapshots, and after removals.
  @Test(arguments: 0..<6 as Range<UInt64>)
  func fullLeavesKeepTheirOrderTheirCountsAndTheirSnapshots(seed: UInt64) throws {
    for (leaf, branch) in [(4, 4), (9, 6), (64, 20), (Int.max, Int.max)] {
      let replay: Comment = "seed \(seed), nodes of \(leaf) and \(branch)"
      var random = SeededGenerator(seed: seed)
      var tree = TreeIndex(leafLimit: leaf, branchLimit: branch)
      var keys = Keys()
      var model: [[UInt8]: Int] = [:]
      let steps = leaf == .max ? 12_000 : 3_000
      var moment = TreeIndexTests.Moment(tree.freeze(), model)
      for step in 0..<steps {
        let number = Int.random(in: 0..<1 << (seed < 3 ? 40 : 16), using: &random)
        try Self.insert(Array("key\(1 << 40 + number)".utf8), into: &tree, &keys, &model)
        if step % 3 == 0, seed % 2 == 1, let bytes = model.keys.randomElement(using: &random) {
          try bytes.withUnsafeBytes { raw in
            tree.remove(try tree.place(of: TreeKey(raw), in: 1, keys), in: 1, keys)
          }
          model[bytes] = nil
        }
        guard step % (steps / 5) == steps / 10 else { continue }
        try Self.expectUnchanged(moment, replay)
        try TreeIndexTests.expectEqual(tree, tree.root(1), model, replay)
        try Self.expectRanks(tree, tree.root(1), model, keys, replay)
        moment = TreeIndexTests.Moment(tree.freeze(), model)
      }
      try Self.expectUnchanged(moment, replay)
      try TreeIndexTests.expectEqual(tree, tree.root(1), model, replay)
      try Self.expectRanks(tree, tree.root(1), model, keys, replay)
    }
  }

  /// Keys that come between the last key of a leaf and the first one of its neighbour, and at the
  /// places where the leaf is divided.
  @Test func keysAtTheBoundariesOfLeavesAreFound() throws {
    for first in 0..<24 {
      for second in 0..<24 {
        var tree = TreeIndex(leafLimit: 8, branchLimit: 8)
        var keys = Keys()
        var model: [[UInt8]: Int] = [:]
        let replay: Comment = "keys after \(first) and \(second)"
        for number in stride(from: 0, to: 24, by: 1) where number % 2 == 0 || number % 5 == 0 {
          try Self.insert([1, UInt8(number), 0, 1, 0, 2], into: &tree, &keys, &model)
        }
        for place in [first, second, first, second, first] {
          for low in [1, 2, 3] as [UInt8] {
            try Self.insert([1, UInt8(place), low, low], into: &tree, &keys, &model)
          }
        }
        try TreeIndexTests.expectEqual(tree, tree.root(1), model, replay)
        try Self.expectRanks(tree, tree.root(1), model, keys, replay)
        for bytes in model.keys {
          let found = try bytes.withUnsafeBytes { raw in
            try tree.place(of: TreeKey(raw), in: 1, keys).existing.map(Keys.number)
          }
          try #require(found == model[bytes], replay)
        }
      }
    }
  }

  /// Leaves stay as full as before: at most 16 bytes of memory a key.
  @Test func randomKeysTakeAtMostSixteenBytes() throws {
    var random = SeededGenerator(seed: 1)
    var tree = TreeIndex()
    var keys = Keys()
    var model: [[UInt8]: Int] = [:]
    for _ in 0..<60_000 {
      let bytes = (0..<8).map { _ in UInt8.random(in: .min ... .max, using: &random) }
      try Self.insert(bytes, into: &tree, &keys, &model)
    }
    #expect(tree.byteCount <= 16 * model.count, "\(tree.byteCount / model.count) bytes a key")
    #expect(keys.reads < model.count, "hardly any record is read")
  }
}
