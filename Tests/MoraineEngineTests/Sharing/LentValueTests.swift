import MoraineStorage
import MoraineTesting
import Testing

@testable import MoraineEngine

/// A value that is borrowed from a shared store does not change while the borrower calls the store.
@Suite(.timeLimit(.minutes(10))) struct LentValueTests {
  /// Returns two openings of one store. The second has compacted segments that the first has
  /// mapped, and the first has not looked yet.
  private static func stores(
    _ directory: TestDirectory
  ) async throws -> (first: Store, second: Store, value: [UInt8]) {
    let configuration = Store.Configuration.shared(.mapped, segmentSizeBytes: 4000)
    let first = try Store(at: directory.path, configuration: configuration)
    let second = try Store(at: directory.path, configuration: configuration)
    var random = SeededGenerator(seed: 1)
    // The value cannot be compressed, so that it is borrowed directly from its segment.
    let value = (0..<1000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    try await first.set(value, forKey: "a")
    for number in 0..<200 { try await first.set([UInt8](0..<100), forKey: Key("\(number % 3)")) }
    try await second.compact()
    return (first, second, value)
  }

  /// The writes of the peer are applied while the value is borrowed, which drops the segment that
  /// holds the value. No call can do that in the middle of the body today; only the mapping keeps
  /// the bytes valid.
  @Test func borrowedValueKeepsItsMappingUntilTheBodyReturns() async throws {
    let directory = try TestDirectory()
    let (first, second, value) = try await Self.stores(directory)
    let (lent, isAlive, isAliveAfterwards) = try await first.lendAndFollow("a")
    #expect(isAlive, "the mapping that holds the value")
    #expect(lent == value)
    #expect(!isAliveAfterwards, "a mapping of a removed segment")
    try await first.close()
    try await second.close()
  }
}

private struct WeakMapping {
  weak var mapping: (any FileMapping)?

  func holds(_ place: UnsafeRawPointer) -> Bool {
    guard let mapping else { return false }
    let base = UnsafeRawPointer(mapping.base)
    return place >= base && place < base + mapping.lengthBytes
  }
}

extension Store {
  /// Borrows a value, applies the writes of other processes within the body, and reads the bytes
  /// after that, if their mapping is alive.
  fileprivate func lendAndFollow(
    _ key: Key
  ) async throws -> (lent: [UInt8], isAlive: Bool, isAliveAfterwards: Bool) {
    let later = try rereading(to: nil)!.run()!
    let mappings = engine!.log.table.infos.map { WeakMapping(mapping: $0.mapping) }
    var place = 0
    var isAlive = false
    // Not the public method: that applies the writes of other processes first.
    let lent = try await withValue(forKey: key, keyspace: 0) { span in
      place = mappings.firstIndex { mapping in
        span.withUnsafeBytes { mapping.holds($0.baseAddress!) }
      }!
      install(later)
      isAlive = mappings[place].mapping != nil
      return isAlive ? span.withUnsafeBytes { [UInt8]($0) } : []
    }
    return (lent ?? [], isAlive, mappings[place].mapping != nil)
  }
}
