import Foundation
import Moraine
import MoraineTesting
import Synchronization
import Testing

/// Bytes that depend on their seed, in parts of several lengths.
struct Parts: AsyncSequence, Sendable {
  struct Broken: Error {}

  let seed: UInt64
  let byteCount: Int
  var partBytes = 100_000
  /// The offset at which the sequence throws.
  var breaksAt = Int.max

  func makeAsyncIterator() -> Iterator { Iterator(parts: self) }

  struct Iterator: AsyncIteratorProtocol {
    let parts: Parts
    private var random: SeededGenerator
    private var done = 0

    init(parts: Parts) {
      self.parts = parts
      random = SeededGenerator(seed: parts.seed)
    }

    mutating func next() async throws -> [UInt8]? {
      if done >= parts.breaksAt { throw Broken() }
      guard done < parts.byteCount else { return nil }
      let count = Swift.min(parts.partBytes, parts.byteCount - done)
      done += count
      return Parts.bytes(count, &random)
    }
  }

  static func bytes(_ count: Int, _ random: inout SeededGenerator) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count { withUnsafeBytes(of: random.next()) { bytes += $0 } }
    bytes.removeLast(bytes.count - count)
    return bytes
  }

  /// The whole value.
  func all() async throws -> [UInt8] {
    var result: [UInt8] = []
    for try await part in self { result += part }
    return result
  }
}

/// Values of any length, in pieces.
@Suite(.timeLimit(.minutes(10))) struct LargeValueTests {
  private static let piece = LargeValues.pieceBytes

  private func read(_ value: LargeValue?) async throws -> [UInt8]? {
    guard let value else { return nil }
    var result: [UInt8] = []
    for try await piece in value { result += piece }
    return result
  }

  private static func storeWithClock() -> (Store, ManualClock) {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    return (Store.inMemory(configuration: configuration), clock)
  }

  private func pieceCount(_ store: Store) async throws -> Int {
    try await store.keyspace(named: "moraine.pieces/films").count()
  }

  /// A stream ends as if it were whole when its task is cancelled.
  @Test func valueOfACancelledTaskIsNotStored() async throws {
    let store = Store.inMemory()
    let films = try store.largeValues(named: "films")
    let whole = AsyncStream<[UInt8]> { parts in
      parts.yield([1, 2, 3])
      parts.finish()
    }
    try await films.set(whole, forKey: "one")
    let (stream, parts) = AsyncStream.makeStream(of: [UInt8].self)
    let setting = Task { try await films.set(stream, forKey: "one") }
    parts.yield(Array(repeating: 1, count: 100_000))
    parts.yield(Array(repeating: 2, count: 100_000))
    setting.cancel()
    let error = await #expect(throws: StoreError.self) { try await setting.value }
    #expect(error?.code == .cancelled)
    #expect(try await read(try await films.value(forKey: "one")) == [1, 2, 3])
    parts.finish()
    try await store.close()
  }

  @Test(arguments: [0, 1, piece - 1, piece, piece + 1, 3 * piece, 1_000_003])
  func valueIsReadAsItWasWritten(byteCount: Int) async throws {
    let store = Store.inMemory()
    let films = try store.largeValues(named: "films")
    let parts = Parts(seed: UInt64(byteCount), byteCount: byteCount)
    try await films.set(parts, forKey: "one")
    let value = try #require(try await films.value(forKey: "one"))
    #expect(value.length == UInt64(byteCount))
    let all = try await parts.all()
    #expect(try await read(value) == all)
    #expect(try await films.contains("one"))
    #expect(try await !films.contains("two"))
    #expect(try await films.value(forKey: "two") == nil)
    #expect(try await films.keys(limit: 9) == ["one"])
    var random = SeededGenerator(seed: 1)
    for _ in 0..<20 {
      let lower = Int(random.next() % UInt64(byteCount + 1))
      let upper = lower + Int(random.next() % UInt64(byteCount - lower + 1))
      let part = try await value.bytes(in: UInt64(lower)..<UInt64(upper))
      #expect(part == Array(all[lower..<upper]), "\(lower)..<\(upper)")
    }
    #expect(try await films.removeValue(forKey: "one"))
    #expect(try await !films.removeValue(forKey: "one"))
    #expect(try await films.value(forKey: "one") == nil)
    #expect(try await store.count() == 0, "no piece is left")
    // The value of the moment at which it was asked for.
    #expect(try await read(value) == all)
  }

  @Test func valueIsReplacedAsAWhole() async throws {
    let store = Store.inMemory()
    let films = try store.largeValues(named: "films")
    let (old, new) = (Parts(seed: 1, byteCount: 700_000), Parts(seed: 2, byteCount: 900_000))
    try await films.set(old, forKey: "one")
    let before = try await films.value(forKey: "one")
    var writer = try await films.writer(forKey: "one")
    for try await part in new {
      try await writer.append(Data(part))
      #expect(try await read(try await films.value(forKey: "one")) == old.all())
    }
    #expect(writer.length == 900_000)
    try await writer.commit(durability: .sync)
    #expect(try await read(try await films.value(forKey: "one")) == new.all())
    #expect(try await read(before) == old.all())
    #expect(try await pieceCount(store) == 4)
  }

  @Test func sequenceThatThrowsLeavesTheOldValueAndNoPieces() async throws {
    let store = Store.inMemory()
    let films = try store.largeValues(named: "films")
    try await films.set(Parts(seed: 1, byteCount: 10), forKey: "one")
    await #expect(throws: Parts.Broken.self) {
      try await films.set(
        Parts(seed: 2, byteCount: 2_000_000, breaksAt: 1_500_000), forKey: "one")
    }
    #expect(
      try await read(try await films.value(forKey: "one")) == Parts(seed: 1, byteCount: 10).all())
    #expect(try await pieceCount(store) == 1)
    let long = Key(Array(repeating: 7, count: 512))
    await #expect(throws: StoreError.self) { _ = try await films.writer(forKey: long) }
  }

  /// A writer that has paused too long loses its pieces, and not the value that it would replace.
  @Test func abandonedPiecesAreRemovedAndTheirWriterIsRefused() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    try await films.set(Parts(seed: 1, byteCount: 10), forKey: "one")
    // Full pieces: nothing is left to write for the commit, which must look for its pieces itself.
    let part = try await Parts(seed: 2, byteCount: 2 * Self.piece).all()
    var lost = try await films.writer(forKey: "one")
    try await lost.append(part)
    var kept = try await films.writer(forKey: "two")
    try await kept.append(part)
    clock.advance(by: .seconds(3000))
    try await kept.append(part)
    #expect(try await films.removeUnfinished() == 0)
    clock.advance(by: .seconds(1100))
    // The first write of another program removes the pieces.
    try await store.largeValues(named: "films").set(Parts(seed: 3, byteCount: 1), forKey: "three")
    var code: StoreError.Code?
    do throws(StoreError) { try await lost.commit() } catch { code = error.code }
    #expect(code == .cancelled)
    #expect(try await read(try await films.value(forKey: "one"))?.count == 10)
    try await kept.commit()
    #expect(try await read(try await films.value(forKey: "two")) == part + part)
    #expect(try await films.removeUnfinished() == 0)
    #expect(try await films.keys(limit: 9) == ["one", "three", "two"])
    try await films.removeValue(forKey: "one")
    try await films.removeValue(forKey: "two")
    try await films.removeValue(forKey: "three")
    #expect(try await store.count() == 0)
  }

  /// Regression: only full pieces counted as signs of a writer.
  @Test func writerThatAppendsSlowlyKeepsItsPieces() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    let part = [UInt8](repeating: 1, count: 100)
    var writer = try await films.writer(forKey: "one")
    for _ in 0..<80 {
      try await writer.append(part)
      clock.advance(by: .seconds(60))
    }
    // The first write of another program looks for abandoned pieces.
    try await store.largeValues(named: "films").set(Parts(seed: 1, byteCount: 1), forKey: "two")
    try await writer.commit()
    #expect(try await films.value(forKey: "one")?.length == 8000)
  }

  /// Regression: the hour began with the claim, which can be older than the last append.
  @Test func writerHasAnHourAfterItsLastAppend() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    let part = [UInt8](repeating: 1, count: Self.piece)
    var writer = try await films.writer(forKey: "one")
    try await writer.append(part)
    clock.advance(by: .seconds(440))
    try await writer.append(part)
    clock.advance(by: .seconds(3300))
    #expect(try await films.removeUnfinished() == 0)
    try await writer.commit()
    #expect(try await films.value(forKey: "one")?.length == UInt64(2 * Self.piece))
  }

  /// The rest of a part whose piece could not be written is not part of the value.
  @Test func writerThatFailedNeverCommits() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    var writer = try await films.writer(forKey: "one")
    try await writer.append([UInt8](repeating: 1, count: Self.piece - 10))
    clock.advance(by: .seconds(4100))
    #expect(try await films.removeUnfinished() == 1)
    var codes: [StoreError.Code] = []
    for _ in 0..<2 {
      do throws(StoreError) { try await writer.append([UInt8](repeating: 2, count: 100)) } catch {
        codes.append(error.code)
      }
    }
    do throws(StoreError) { try await writer.commit() } catch { codes.append(error.code) }
    #expect(codes == [.cancelled, .cancelled, .cancelled])
    #expect(try await films.value(forKey: "one") == nil)
    #expect(try await pieceCount(store) == 0)
  }

  /// The clock is set back after the pieces of a writer were removed, so that the writer does not
  /// renew its claim, which would fail, before it writes a piece.
  @Test func noPieceIsWrittenAfterItsClaimWasRemoved() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    var writer = try await films.writer(forKey: "one")
    try await writer.append([UInt8](repeating: 1, count: Self.piece))
    clock.advance(by: .seconds(4100))
    #expect(try await films.removeUnfinished() == 1)
    clock.set(toMilliseconds: 1_700_000_000_000)
    var codes: [StoreError.Code] = []
    do throws(StoreError) {
      try await writer.append([UInt8](repeating: 2, count: Self.piece))
    } catch { codes.append(error.code) }
    #expect(codes == [.cancelled])
    // What the writer itself would clean up must not be there in the first place.
    #expect(try await pieceCount(store) == 0)
    do throws(StoreError) { try await writer.commit() } catch { codes.append(error.code) }
    #expect(codes == [.cancelled, .cancelled])
    #expect(try await pieceCount(store) == 0)
  }

  /// Regression: a clock that was set forward by 68 minutes made the claims of writers at work old.
  @Test func clockThatIsSetForwardTakesNoPiecesFromAWriter() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    let part = [UInt8](repeating: 1, count: Self.piece)
    var kept = try await films.writer(forKey: "one")
    try await kept.append(part)
    var dropped = try await films.writer(forKey: "two")
    try await dropped.append(part)
    clock.set(toMilliseconds: clock.milliseconds + 36_000_000)
    // By the old time, this writer begins in ten hours.
    var late = try await films.writer(forKey: "four")
    try await late.append(part)
    // The first write of another program looks for abandoned pieces.
    try await store.largeValues(named: "films").set(Parts(seed: 1, byteCount: 1), forKey: "three")
    #expect(try await films.removeUnfinished() == 0)
    try await kept.append(part)
    clock.advance(by: .seconds(4100))
    try await kept.append([2])
    #expect(try await films.removeUnfinished() == 2, "the new time is believed in the end")
    try await kept.commit()
    #expect(try await films.value(forKey: "one")?.length == UInt64(2 * Self.piece + 1))
  }

  /// Regression: pieces of a clock that was years ahead stayed for these years.
  @Test func piecesOfAClockThatWasFarAheadAreRemoved() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    let part = [UInt8](repeating: 1, count: Self.piece)
    clock.set(toMilliseconds: 1_800_000_000_000)
    var kept = try await films.writer(forKey: "one")
    try await kept.append(part)
    var dropped = try await films.writer(forKey: "two")
    try await dropped.append(part)
    clock.set(toMilliseconds: 1_700_000_000_000)
    #expect(try await films.removeUnfinished() == 0, "both writers may be at work")
    try await kept.append(part)
    clock.advance(by: .seconds(4100))
    try await kept.append([2])
    #expect(try await films.removeUnfinished() == 1)
    try await kept.commit()
    #expect(try await films.value(forKey: "one")?.length == UInt64(2 * Self.piece + 1))
  }

  /// An entry that is no large value stands for a damaged one.
  @Test func damagedValueIsReplacedAndRemoved() async throws {
    let store = Store.inMemory()
    let films = try store.largeValues(named: "films")
    let headers = try store.orderedKeyspace(named: "films")
    try await headers.set([1, 2, 3], forKey: "one")
    try await headers.set([1, 2, 3], forKey: "two")
    try await films.set(Parts(seed: 1, byteCount: 10), forKey: "one")
    #expect(
      try await read(try await films.value(forKey: "one")) == Parts(seed: 1, byteCount: 10).all())
    #expect(try await films.removeValue(forKey: "two"))
    #expect(try await films.keys(limit: 9) == ["one"])
    // A value of a later version is neither replaced nor removed.
    let later = Array("MLV1".utf8) + [2] + [UInt8](repeating: 0, count: 40)
    try await headers.set(later, forKey: "three")
    var codes: [StoreError.Code] = []
    do { try await films.set(Parts(seed: 1, byteCount: 10), forKey: "three") } catch let error
      as StoreError
    { codes.append(error.code) }
    do throws(StoreError) { try await films.removeValue(forKey: "three") } catch {
      codes.append(error.code)
    }
    #expect(codes == [.newerFormat, .newerFormat])
    #expect(try await headers.value(forKey: "three") == later)
    // The value that could not replace it has left no pieces.
    #expect(try await pieceCount(store) == 1)
  }

  /// The same program removes pieces again, not only with its first write.
  @Test func abandonedPiecesAreRemovedOnceAnHour() async throws {
    let (store, clock) = Self.storeWithClock()
    let films = try store.largeValues(named: "films")
    try await films.set(Parts(seed: 1, byteCount: 10), forKey: "one")
    var dropped = try await films.writer(forKey: "two")
    try await dropped.append([UInt8](repeating: 1, count: Self.piece))
    #expect(try await pieceCount(store) == 3)
    clock.advance(by: .seconds(7300))
    try await films.set(Parts(seed: 2, byteCount: 10), forKey: "one")
    #expect(try await pieceCount(store) == 1)
  }

  @Test func damageIsReported() async throws {
    let store = Store.inMemory()
    let films = try store.largeValues(named: "films")
    let pieces = try store.orderedKeyspace(named: "moraine.pieces/films")
    try await films.set(Parts(seed: 1, byteCount: 600_000), forKey: "one")
    let keys = try await pieces.keys(limit: 9)
    #expect(keys.count == 3)
    let last = try #require(try await pieces.value(forKey: keys[2]))
    func codeOfReading() async throws -> StoreError.Code? {
      do {
        _ = try await read(try await films.value(forKey: "one"))
        return nil
      } catch let error as StoreError {
        return error.code
      }
    }
    var other = last
    other[5] ^= 1
    try await pieces.set(other, forKey: keys[2])
    #expect(try await codeOfReading() == .corrupted, "a piece of another value")
    try await pieces.set(Array(last.dropLast()), forKey: keys[2])
    #expect(try await codeOfReading() == .corrupted, "a piece that is too short")
    try await pieces.removeValue(forKey: keys[2])
    #expect(try await codeOfReading() == .corrupted, "a piece that is missing")
    try await pieces.set(last, forKey: keys[2])
    #expect(try await codeOfReading() == nil)
    let headers = try store.keyspace(named: "films")
    try await headers.set([1, 2, 3], forKey: "two")
    let error = await #expect(throws: StoreError.self) { _ = try await films.value(forKey: "two") }
    #expect(error?.code == .corrupted)
  }

  /// After a power failure or the death of the process at any call, the key has the old value or the
  /// new one, and the next write removes all other pieces.
  @Test(arguments: 0..<4 as Range<UInt64>)
  func crashLeavesTheOldValueOrTheNewOne(seed: UInt64) async throws {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    configuration.segmentSizeBytes = 1 << 20
    configuration.ioMode = seed % 2 == 0 ? .mapped : .positional
    configuration.durability = seed < 2 ? .sync : .none
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: configuration)
    let films = try store.largeValues(named: "films")
    let sizes = [700_000, 1_200_000, 300_000]
    let states = sizes.enumerated().map { Parts(seed: UInt64($0), byteCount: $1) }
    try await films.set(states[0], forKey: "one", durability: .sync)
    let moments = DiskMoments(limit: 24, phase: Int(seed))
    disk.setObserver { [unowned disk] in moments.take(disk) }
    try await films.set(states[1], forKey: "one")
    try await films.set(states[2], forKey: "one")
    disk.setObserver(nil)
    try await store.close()
    clock.advance(by: .seconds(7200))
    var expected: [[UInt8]] = []
    for state in states { expected.append(try await state.all()) }
    var seen: Set<Int> = []
    for (number, moment) in moments.all {
      for (policy, image) in moment.images(subsets: 2, torn: 1, seed: seed &+ UInt64(number)) {
        let store = try SimulatedDisk(image).openStore(configuration: configuration)
        let films = try store.largeValues(named: "films")
        let found = try await read(try await films.value(forKey: "one"))
        let index = found.flatMap { expected.firstIndex(of: $0) }
        #expect(index != nil, "seed \(seed), call \(number), \(policy)")
        if let index { seen.insert(index) }
        try await films.set(Parts(seed: 9, byteCount: 10), forKey: "two")
        let pieces = try await pieceCount(store)
        let wanted = ((found?.count ?? 0) + Self.piece - 1) / Self.piece + 1
        #expect(pieces == wanted, "seed \(seed), call \(number), \(policy): pieces without a value")
        try await store.close()
      }
    }
    #expect(seen.count > 1, "the crashes came too early or too late")
  }
}
