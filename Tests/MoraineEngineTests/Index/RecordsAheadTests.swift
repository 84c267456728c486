import MoraineFormat
import MoraineStorage
import Synchronization
import SystemPackage
import Testing

@testable import MoraineEngine

/// A clock that a test moves.
private final class TestClock: Sendable {
  private let nanoseconds = Mutex<UInt64>(0)

  func advance(_ step: UInt64) { nanoseconds.withLock { $0 += step } }

  var now: UInt64 { nanoseconds.withLock { $0 } }
}

@Suite struct ReadingPaceTests {
  private let clock = TestClock()

  /// Passes entries that take the same time each.
  ///
  /// - Returns: the number of the entry at which the pace asks for announcements; nil when it does
  ///   not.
  private func firstAnnouncement(
    _ pace: inout ReadingPace, entries: Int, nanoseconds: UInt64
  ) -> Int? {
    for entry in 0..<entries {
      clock.advance(nanoseconds)
      if pace.pass() { return entry }
    }
    return nil
  }

  @Test func entriesInMemoryAreNotAnnounced() {
    var pace = ReadingPace { [clock] in clock.now }
    let first = firstAnnouncement(&pace, entries: 100_000, nanoseconds: 300)
    let isAnnounced = pace.enterLeaf()
    #expect(first == nil)
    #expect(!isAnnounced)
  }

  @Test func slowEntriesAreAnnouncedAfterOneSample() {
    var pace = ReadingPace { [clock] in clock.now }
    let first = firstAnnouncement(&pace, entries: 1000, nanoseconds: 80_000)
    #expect(first == ReadingPace.unobserved + ReadingPace.sample - 1)
  }

  @Test func announcementsGoOnForSixteenLeavesAndThenThePaceDecidesAgain() {
    var pace = ReadingPace { [clock] in clock.now }
    _ = firstAnnouncement(&pace, entries: 1000, nanoseconds: 80_000)
    for _ in 0..<ReadingPace.announcedLeaves {
      let isAnnounced = pace.enterLeaf()
      #expect(isAnnounced)
      let next = firstAnnouncement(&pace, entries: 270, nanoseconds: 300)
      #expect(next == nil)
    }
    let goesOn = pace.enterLeaf()
    #expect(!goesOn, "announcements without an end would slow a walk in memory down")
    let again = firstAnnouncement(&pace, entries: 270, nanoseconds: 80_000)
    #expect(again == ReadingPace.sample - 1)
  }
}

@Suite struct LogPartTests {
  @Test func nearRecordsAreAnnouncedTogetherAndDistantOnesApart() {
    let far = 4096 + LogPart.recordBytes + LogPart.gapBytes + 8
    let addresses = [
      Address(slot: 1, offset: 64), Address(slot: 0, offset: far),
      Address(slot: 0, offset: 4096), Address(slot: 0, offset: 64),
    ]
    #expect(
      LogPart.covering(addresses) == [
        LogPart(slot: 0, start: 64, end: 4096 + LogPart.recordBytes),
        LogPart(slot: 0, start: far, end: far + LogPart.recordBytes),
        LogPart(slot: 1, start: 64, end: 64 + LogPart.recordBytes),
      ])
  }
}

/// The parts of the log that a walk has announced.
private final class Announcements {
  var parts: [LogPart] = []
}

/// A source that only records announcements.
private struct AnnouncedSource: ~Copyable, RecordSource {
  let count: Int
  let views: UnsafeMutablePointer<SegmentView>
  let hashKey: HashKey
  let announcements: Announcements

  func fileName(_ slot: Int) -> String { "" }
  func load(_ address: Address, count: Int) throws(StoreError) -> UnsafeRawPointer {
    throw damaged(address, "this source has no bytes")
  }
  func announce(_ part: LogPart) { announcements.parts.append(part) }
  func dictionary(of slot: Int) -> [UInt8] { [] }
  func valueWithDictionary(
    _ record: RecordReference, at address: Address
  ) throws(StoreError) -> [UInt8] { [] }
}

@Suite struct RecordsAheadTests {
  @Test(arguments: [KeyOrder.ascending, .descending])
  func aSlowWalkAnnouncesEachRecordThatItReads(order: KeyOrder) async throws {
    let store = try Store(on: MemoryStorage(), at: "store")
    let keyspace = try store.orderedKeyspace(named: "events")
    for number in 0..<3000 {
      try await keyspace.set([1], forKey: Key("key-\(number + 10_000)"))
    }
    let announced = try await store.announcedAndRead(keyspace, order, limit: .max, step: 80_000)
    let unannounced = ReadingPace.unobserved + ReadingPace.sample - 1
    #expect(announced.read.count == 3000)
    // The keys were set in their order.
    let places = announced.read.map(\.rawValue)
    #expect(places == (order == .ascending ? places.sorted() : places.sorted().reversed()))
    for address in announced.read.dropFirst(unannounced) {
      #expect(
        announced.parts.contains {
          $0.slot == address.slot && $0.start <= address.offset && address.offset < $0.end
        }, "\(address) was not announced")
    }
    try await store.close()
  }

  @Test func aFastWalkAnnouncesNoRecord() async throws {
    let store = try Store(on: MemoryStorage(), at: "store")
    let keyspace = try store.orderedKeyspace(named: "events")
    for number in 0..<2000 { try await keyspace.set([1], forKey: Key("key-\(number)")) }
    let announced = try await store.announcedAndRead(keyspace, .ascending, limit: .max, step: 100)
    #expect(announced.read.count == 2000)
    #expect(announced.parts.isEmpty)
    try await store.close()
  }

  @Test func aPageAnnouncesNoRecordAfterItsLimit() async throws {
    let store = try Store(on: MemoryStorage(), at: "store")
    let keyspace = try store.orderedKeyspace(named: "events")
    // The records of neighbours lie far apart.
    for number in 0..<200 {
      try await keyspace.set(
        (0..<50_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) },
        forKey: Key("key-\(number + 1000)"))
    }
    let announced = try await store.announcedAndRead(
      keyspace, .ascending, limit: 60, step: 80_000)
    #expect(announced.read.count == 60)
    let last = try #require(announced.read.last)
    #expect(announced.parts.allSatisfy { ($0.slot, $0.start) <= (last.slot, last.offset) })
    #expect(announced.parts.count >= 60 - ReadingPace.unobserved - ReadingPace.sample)
    try await store.close()
  }
}

extension Store {
  /// Walks over a keyspace with a clock that moves at each look.
  ///
  /// - Parameter step: nanoseconds that an entry takes.
  fileprivate func announcedAndRead(
    _ keyspace: Keyspace, _ order: KeyOrder, limit: Int, step: UInt64
  ) throws -> (parts: [LogPart], read: [Address]) {
    let id = try #require(engine!.keyspaces.id(of: keyspace.name))
    let announcements = Announcements()
    let source = AnnouncedSource(
      count: engine!.log.table.count, views: engine!.log.table.views,
      hashKey: engine!.log.table.hashKey, announcements: announcements)
    let clock = TestClock()
    var ahead = RecordsAhead(limit: limit, clock: { clock.now })
    var read: [Address] = []
    guard var walk = try engine!.walk(id, KeyRange(), order, limit: limit) else { return ([], []) }
    while read.count < limit {
      clock.advance(step)
      guard let address = try ahead.next(&walk, engine!.live.trees, source) else { break }
      read.append(address)
    }
    return (announcements.parts, read)
  }
}
