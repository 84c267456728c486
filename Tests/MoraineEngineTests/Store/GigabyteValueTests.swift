import MoraineFormat
import MoraineTesting
import Testing

@testable import MoraineEngine

/// The longest value: the sync marks and the footer after it begin past the last offset that an
/// address can hold.
@Suite(.serialized, .timeLimit(.minutes(10))) struct GigabyteValueTests {
  /// A value of 1 GiB that LZ4 does not compress: it repeats at a greater distance than LZ4 sees.
  private static func longestValue() -> [UInt8] {
    var generator = SeededGenerator(seed: 7)
    let part = (0..<1 << 20).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
    var value: [UInt8] = []
    value.reserveCapacity(StoreLimits.valueLengthBytes)
    for _ in 0..<1 << 10 { value.append(contentsOf: part) }
    return value
  }

  /// Regression: iterating took the offset of a mark for that of a record in another segment.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func marksAfterTheLongestValueDoNotDisturbIteration(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.testing(ioMode: mode)
    configuration.compaction = .manual
    let store = try Store(at: directory.path, configuration: configuration)
    try await store.set(Self.longestValue(), forKey: "long", durability: .sync)
    for number in 0..<3 { try await store.set([1], forKey: Key("\(number)"), durability: .sync) }
    let ends = try await store.segmentStatistics().map(\.lengthBytes)
    try #require(ends.contains { $0 > StoreLimits.recordOffsetBytes + 128 })
    let expected = ["long": StoreLimits.valueLengthBytes, "0": 1, "1": 1, "2": 1]

    var keys: [String] = []
    var lengths: [String: Int] = [:]
    try await store.scan { entry in
      keys.append("\(entry.key)")
      lengths["\(entry.key)"] = entry.value.count
      return true
    }
    #expect(lengths == expected)
    #expect(keys.sorted() == expected.keys.sorted(), "each record once")

    lengths = [:]
    var next: LiveWalk? = LiveWalk()
    while let walk = next {
      let page = try await Keyspace(store: store, name: "").livePage(walk)
      for entry in page.entries { lengths["\(entry.key)"] = entry.value.count }
      next = page.next
    }
    #expect(lengths == expected)

    lengths = [:]
    for try await change in store.changes(after: SequenceNumber(rawValue: 0)) {
      lengths["\(change.key)"] = change.value?.count
      if lengths.count == expected.count { break }
    }
    #expect(lengths == expected)
    #expect(try await store.verify().isSound)
    try await store.close()
  }
}
