import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting
import SystemPackage
import Testing

/// Makes the golden stores of this program's format version: `Scripts/golden --make`.
///
/// An existing store is not changed: it stands for programs in use.
@Suite(.serialized) struct GoldenMaker {
  static let isWanted = ProcessInfo.processInfo.environment["MORAINE_MAKE_GOLDEN"] != nil

  /// Puts, deletes, a batch, compressed and raw values, an empty key and value, several segments.
  @Test(.enabled(if: isWanted)) func plain() async throws {
    let recipe = try await GoldenRecipe("plain", segmentSizeBytes: 1024)
    try await recipe?.fill(seed: 1)
    try await recipe?.finish()
  }

  /// Dictionaries, deletes that compaction had to keep, an index checkpoint, a log after it.
  @Test(.enabled(if: isWanted)) func compacted() async throws {
    guard
      let recipe = try await GoldenRecipe(
        "compacted", segmentSizeBytes: 16_384, hasCheckpoint: true)
    else { return }
    var random = SeededGenerator(seed: 2)
    // A dictionary has at least 2 KiB, and must pay.
    let shared = (0..<16).map { _ in recipe.noise(150, &random) }
    for number in 0..<64 {
      try await recipe.put(
        Array("similar \(number)".utf8), shared[number % 16] + recipe.noise(4, &random))
    }
    try await recipe.store.compact()
    // That segment is not rewritten: it is too long to be merged. It might hold records that are
    // deleted now.
    try await recipe.reopen(segmentSizeBytes: 2048)
    for number in 0..<8 { try await recipe.put([0xf0, UInt8(number)], recipe.noise(40, &random)) }
    for number in 0..<5 { try await recipe.delete([0xf0, UInt8(number)]) }
    try await recipe.store.compact()
    try await recipe.finish()
  }

  /// Ordered keyspaces, one of which is the unnamed one, beside a hashed keyspace: segments in the
  /// order of keys, an index checkpoint with trees, a log after the compaction.
  @Test(.enabled(if: isWanted)) func ordered() async throws {
    guard
      let recipe = try await GoldenRecipe(
        "ordered", segmentSizeBytes: 16_384, hasCheckpoint: true)
    else { return }
    var random = SeededGenerator(seed: 4)
    let unnamed = try recipe.store.orderedKeyspace(named: "")
    let users = try recipe.store.orderedKeyspace(named: "users")
    let plain = try recipe.store.keyspace(named: "plain")
    // Keys that differ in the zeros at their ends alone.
    let short: [[UInt8]] = [[], [0], [0, 0], [1], [1, 0], [1, 0, 0], [255]]
    for key in short { try await recipe.put(key, key.reversed(), in: unnamed) }
    // Enough keys for a branch above the leaves; most agree in more bytes than a leaf has of them.
    let keys = (0..<380).map { Array("user/\(10 + $0 / 20)/item/\(10 + $0 % 20)".utf8) }
    for (place, key) in keys.shuffled(using: &random).enumerated() {
      try await recipe.put(key, recipe.noise(place % 3, &random), in: users)
      if place % 40 == 0 {
        try await recipe.put(
          [0xc0, UInt8(place / 40)], Array(repeating: 7, count: 90), in: plain)
      }
    }
    for key in keys[..<9] { try await recipe.delete(key, in: users) }
    try await recipe.store.compact()
    for key in keys[20..<26] { try await recipe.put(key, recipe.noise(5, &random), in: users) }
    for key in keys[30..<34] { try await recipe.delete(key, in: users) }
    try await recipe.put(Array("user/10/item/12".utf8), [12], in: users)
    try await recipe.delete([0, 0], in: unnamed)
    try await recipe.put([1, 0], Array("later".utf8), in: unnamed)
    try await recipe.delete([0xc0, 3], in: plain)
    try await recipe.finish()
  }

  /// Entries that expire far in the future, beside entries that stay, in two keyspaces: alone, in a
  /// batch, compressed, renewed, moved by compaction, and in a log after it; an index checkpoint.
  @Test(.enabled(if: isWanted)) func expiring() async throws {
    guard
      let recipe = try await GoldenRecipe(
        "expiring", segmentSizeBytes: 2048, hasCheckpoint: true)
    else { return }
    var random = SeededGenerator(seed: 5)
    let sessions = try recipe.store.keyspace(named: "sessions")
    // 2100-01-01, and then each 400 days and 123 ms.
    func time(_ number: Int) -> UInt64 { 4_102_444_800_000 + UInt64(number) * 34_560_000_123 }
    for number in 0..<40 {
      let value =
        number % 5 == 0
        ? Array(repeating: UInt8(number), count: 90) : recipe.noise(number % 50, &random)
      try await recipe.put(
        Array("key \(number % 32)".utf8), value, in: number % 3 == 0 ? sessions : nil,
        expiring: number % 4 == 3 ? nil : time(number))
    }
    try await recipe.batch([([0xd0], [1]), ([0xd1], [])], expiring: time(50))
    for key in ["key 1", "key 4"] { try await recipe.delete(Array(key.utf8)) }
    try await recipe.store.compact()
    // A time of which each byte is another one.
    try await recipe.put([0xd2], [2], expiring: 0x0102_0304_0506_0708)
    try await recipe.put([0xd2], [3], in: sessions, expiring: time(60))
    try await recipe.put(Array("key 2".utf8), [4], expiring: time(61))
    try await recipe.put(Array("key 5".utf8), [5])
    try await recipe.finish()
  }

  /// Files that a killed process leaves: a durable part, later writes, a batch without its end.
  @Test(.enabled(if: isWanted)) func killed() async throws {
    guard let recipe = try await GoldenRecipe("killed", segmentSizeBytes: 1024) else { return }
    try await recipe.fill(seed: 3)
    try await recipe.store.sync()
    for number in 0..<6 { try await recipe.put([0xa0, UInt8(number)], [UInt8(number)]) }
    try await recipe.delete([0xa0, 2])
    try await recipe.batch([([0xa1], Array("in a batch".utf8)), ([0xa0, 3], nil), ([0xa2], [])])
    try await recipe.cutOffBatch()
  }
}
