import MoraineFormat

/// The first inputs: sound files after the flags of a target. libFuzzer finds the other inputs from
/// there.
package enum FuzzSeeds {
  package static func make(_ target: FuzzTarget) throws -> [[UInt8]] {
    let files = try FixtureStore.files()
    let manifest = files[Manifest.fileName] ?? []
    let segments = files.files.filter { $0.key.hasSuffix(".segment") }.sorted { $0.key < $1.key }
    let records: [[UInt8]] = segments.map { Array($0.value[SegmentHeader.fixedLength...]) }
    switch target {
    case .record:
      return behind([2], records) + behind([0], records.map { Array($0.prefix(60)) }) + drafts
    case .segment:
      return behind([0, 4, 8, 12, 36, 132, 196, 204], records)
        + behind([1, 5, 3], segments.prefix(2).map(\.value))
    case .manifest: return behind(Array(0..<8), [manifest])
    case .checkpoint: return behind(Array(0..<8), edits)
    case .lz4: return try compressed(records.joined().map { $0 })
    case .operations: return operations
    case .store: return behind(Array(0..<8), stores)
    case .ordered:
      return [otherTie] + behind([0, 1, 3, 9], trees) + behind([4, 5], [[0] + orderedReads])
    case .clustered: return behind([0, 4, 5, 14], recordEdits)
    }
  }

  private static func behind(_ flags: [UInt8], _ inputs: [[UInt8]]) -> [[UInt8]] {
    inputs.flatMap { input in flags.map { [$0] + input } }
  }

  /// Sequence, shape (kind, batch, codec), keyspace, raw length, key, value, changes.
  private static let drafts: [[UInt8]] = [0x10, 0x11, 0x18, 0x12, 0x14, 0x20, 0x28].map { shape in
    [1, 1, 0, 0, 0, 0, 0, 0, shape, shape & 8, 40, 0, 0, 3, 107, 101, 121]
      + (shape < 0x20 ? [4, 1, 2, 3, 4] : [0])
  }

  private static let edits: [[UInt8]] = [
    [], [4, 8, 0, 1], [4, 64, 0, 1], [4, 72, 0, 1], [4, 80, 0, 1], [4, 128, 0, 1], [5, 3, 0, 255],
    [1, 0, 0, 7, 255, 255, 255, 255, 255, 255, 255, 255], [12, 100, 0, 0], [12, 100, 0, 1, 0],
    // No keys; then a page of overflow buckets, a link to the first bucket, and a link from that
    // bucket to itself.
    [3, 9, 0, 0, 0], grown, grown + link, grown + link + [3, 7, 34] + toFirst,
  ]

  /// One more live byte in a checkpoint, one entry less, the number of a mark, the count of a
  /// footer, segments in another order, the length of a key.
  private static let stores: [[UInt8]] = [
    [], [11, 184, 0, 2], [11, 0, 16, 33, 0, 0, 0, 0, 0, 0, 0, 0], [0, 140, 0, 1], [1, 144, 0, 2],
    [12, 80, 0, 1], [13, 168, 0, 1, 13, 240, 0, 1], [3, 145, 0, 2, 3, 16, 1, 3],
  ]

  private static let grown: [UInt8] = [15, 0, 128, 1, 0, 0, 96, 0, 0, 1, 0, 104, 0, 0, 2]
  private static let link: [UInt8] = [17, 5, 0] + toFirst
  private static let toFirst: [UInt8] = [7, 0, 0, 0, 240, 255, 255, 0, 0]

  private static func compressed(_ value: [UInt8]) throws -> [[UInt8]] {
    let dictionary = Array(value.prefix(64))
    var plain = Compressor()
    var sharing = DictionaryCompressor(dictionary: dictionary)
    let short = Array(value.prefix(500))
    let blocks = short.withUnsafeBytes { short in
      (
        plain.compress(short).map { Array($0) } ?? [],
        sharing.compress(short).map { Array($0) } ?? []
      )
    }
    let claim = [UInt8(short.count & 255), UInt8(short.count >> 8)]
    return [claim + [0] + blocks.0, claim + [8] + dictionary + blocks.1, claim + [8] + value]
  }

  /// One edit of a tree or of the head, and then operations: other numbers, other places, a node in
  /// the place of another one.
  private static let trees: [[UInt8]] = {
    let reads = orderedReads + orderedWrites
    // The first nodes are the roots of a branch of branches, a branch and a leaf.
    let fields = [0, 1, 2, 9].flatMap { node in
      (UInt8(0)..<10).map { kind in [1, node, kind, 3, 0, 1] as [UInt8] }
    }
    let head = (UInt8(0)..<7).map { [9, 1, $0, 0, 0, 1] as [UInt8] }
    let others: [[UInt8]] = [
      [4, 9, 6, 3, 0, 10, 6, 7, 0], [5, 9, 5, 1, 0], [6, 9, 0, 0, 0, 9, 10, 0],
      [6, 9, 0, 0, 0, 9, 10, 1], [7, 9, 0, 0, 0, 0, 0, 2], [3, 0, 4, 0, 0, 0, 4, 1, 0],
    ]
    return (fields + head + others).map { [1] + $0 + reads } + [[0] + reads]
  }()

  /// Two edits of what a leaf says of two tied keys, and then a key that belongs between them.
  private static let otherTie: [UInt8] = [
    9, 2, 1, 2, 8, 8, 0, 1, 2, 2, 9, 8, 0, 0x32, 12, 0, 4, 7, 0, 1,
  ]

  private static let orderedReads: [UInt8] = [
    0, 3, 0, 7, 0, 0, 3, 1, 7, 0, 2, 2, 3, 0, 9, 0, 0, 90, 0, 0, 3, 3, 0, 1, 3, 4, 3, 3, 0, 9, 0,
    0, 200, 0, 5, 2, 0, 3, 1, 6, 2, 0, 5, 0, 1, 0x23, 5, 4, 6, 7, 0, 44, 1, 8, 3, 0, 15, 9,
  ]
  private static let orderedWrites: [UInt8] = [
    12, 3, 2, 40, 0, 5, 1, 12, 2, 4, 9, 0, 2, 16, 3, 0, 77, 0, 18, 3, 3, 0, 8, 0, 1, 3, 2, 60, 0,
    7, 1, 4, 0, 5, 0, 0, 0, 0, 1, 0, 1, 20, 3, 100, 0, 40, 21, 3, 0, 1, 3, 4, 30, 0, 1, 0, 0, 1, 0,
    10, 11, 23, 9,
  ]

  /// One edit of the records in the order of keys: numbers, places, keys, a record that is missing
  /// or exists twice.
  private static let recordEdits: [[UInt8]] = {
    let edits: [[UInt8]] = [
      [0, 0, 5, 0, 16, 1], [1, 1, 5, 0, 9, 0], [2, 1, 5, 0, 9, 0], [3, 0, 5, 0, 1],
      [4, 1, 5, 0, 6, 0], [5, 1, 5, 0], [6, 1, 5, 0, 1, 9, 0], [7, 1, 5, 0, 3, 1],
      [8, 0, 0, 0, 2, 1],
      [9, 1, 1, 0, 2, 0], [11, 1, 3, 0, 40], [12, 0, 3, 0, 1, 4, 0],
    ]
    return edits.map { [1] + $0 + orderedReads + orderedWrites } + [[0] + orderedWrites]
  }()

  private static let operations: [[UInt8]] = [0, 1, 2, 4, 5, 6, 16, 21, 36].map { flags in
    // Puts, a delete, a batch, compactions, a reopening, a kill, deletes again.
    [flags]
      + (0..<9).flatMap { [0, UInt8($0), 40, UInt8($0)] } + [
        4, 3, 0x27, 1, 1, 200, 2, 0, 3, 2, 5, 5,
      ]
      + [
        10, 8, 1, 12, 0, 1, 133, 1, 2, 3, 4, 5, 9, 11, 4, 1, 4, 2, 13, 15, 7, 1, 14, 1, 3, 3, 9, 6,
        7,
      ]
  }
}
