import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Compaction of ordered keyspaces: it writes their records in the order of their keys.
@Suite(.timeLimit(.minutes(5))) struct ClusteredCompactionTests {
  private typealias Model = [Key: [UInt8]]

  private static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.hashed(segmentSizeBytes: 32 << 10, ioMode: mode)
    configuration.compaction.isAutomatic = false
    return configuration
  }

  /// Writes random values to an ordered keyspace and to a hashed one, and deletes some.
  private static func fill(
    _ store: Store, _ model: inout Model, _ random: inout SeededGenerator, count: Int = 1500,
    deletes: Bool = true
  ) async throws {
    let (ordered, hashed) = (
      try store.orderedKeyspace(named: "k"), try store.keyspace(named: "hashed")
    )
    for _ in 0..<count {
      let key = Key("app/\(random.next() % 40)/\(random.next() % 40)")
      if deletes, random.next() % 5 == 0 {
        try await ordered.removeValue(forKey: key)
        model[key] = nil
      } else {
        let value = [UInt8](repeating: UInt8(random.next() % 200), count: Int(random.next() % 60))
        try await ordered.set(value, forKey: key)
        model[key] = value
      }
      if random.next() % 4 == 0 { try await hashed.set([1], forKey: key) }
    }
  }

  /// Returns a clustered segment, and its puts and deletes.
  private static func clusteredSegment(
    in directory: TestDirectory
  ) throws -> (URL, [(offset: Int, header: RecordHeader)]) {
    let segment = try #require(
      try directory.segments().first { try $0.header.flags.contains(.clustered) })
    let records = try GoldenStore.places(in: [UInt8](try Data(contentsOf: segment)))
    return (segment, records.filter(\.header.kind.isOperation))
  }

  private static func expect(
    _ store: Store, equals model: Model, _ replay: Comment
  ) async throws {
    let verification = try await store.verify()
    #expect(verification.isSound, "\(replay): \(verification.problems)")
    let entries = try await store.orderedKeyspace(named: "k").entries(limit: 100_000).entries
    #expect(entries.map(\.key) == model.keys.sorted(), replay)
    #expect(entries.map(\.value) == model.keys.sorted().map { model[$0] }, replay)
  }

  @Test(arguments: OrderedKeyspaceTests.modes, 0..<6 as Range<UInt64>)
  func clusteredStoreEqualsASortedDictionaryInEveryOpening(
    mode: Store.Configuration.IOMode, seed: UInt64
  ) async throws {
    let storage = MemoryStorage()
    var random = SeededGenerator(seed: seed)
    var model: Model = [:]
    for run in 0..<4 {
      let replay: Comment = "seed \(seed), run \(run)"
      var configuration = Self.configuration(mode)
      // Every other opening reads the whole log.
      configuration.checkpointFloorBytes = run % 2 == 0 ? 0 : .max
      let store = try Store(on: storage, at: "store", configuration: configuration)
      if run > 0 { try await Self.expect(store, equals: model, replay) }
      try await Self.fill(store, &model, &random)
      _ = try await store.compact()
      #expect(try await store.segmentStatistics().contains(where: \.isClustered), replay)
      try await Self.expect(store, equals: model, replay)
      // A second compaction finds nothing to do.
      #expect(try await store.compact().inputSegmentCount <= 1, replay)
      try await Self.fill(store, &model, &random, count: 200)
      try await Self.expect(store, equals: model, replay)
      try await store.close()
    }
  }

  /// Returns in how many of ten parts of the log each hundred of 2,000 keys lies.
  private static func occupiedParts(_ store: Store) async throws -> [Int] {
    let places = try #require(try await store.keyOrderPlaces(in: "k", columns: 20, rows: 10))
    #expect(places.counts.count == 20 && places.counts.allSatisfy { $0.count == 10 })
    #expect(places.counts.allSatisfy { $0.reduce(0, +) == 100 })
    return places.counts.map { column in column.count { $0 > 0 } }
  }

  /// The picture that `inspect --svg` draws: each key once, and neighbours close together after
  /// compaction has written the records in the order of their keys.
  @Test(arguments: [32 << 10, 4 << 20])
  func placesInKeyOrderShowWhatCompactionBroughtTogether(segmentBytes: Int) async throws {
    let directory = try TestDirectory()
    var configuration = Self.configuration(.mapped)
    configuration.segmentSizeBytes = segmentBytes
    let store = try Store(at: directory.path, configuration: configuration)
    let keyspace = try store.orderedKeyspace(named: "k")
    #expect(try await store.keyOrderPlaces(in: "k", columns: 20, rows: 10) == nil)
    var random = SeededGenerator(seed: 3)
    let noise = (0..<100).map { _ in UInt8.random(in: 0...255, using: &random) }
    for number in (0..<2000).shuffled(using: &random) {
      try await keyspace.set(noise, forKey: Key(String(format: "%06d", number)))
    }
    try await store.set([1], forKey: "hashed")
    #expect(try await store.keyOrderPlaces(in: "", columns: 20, rows: 10) == nil)
    #expect(try await store.keyOrderPlaces(in: "none", columns: 20, rows: 10) == nil)
    // A hundred keys that were written at random are in all ten parts of the log.
    let before = try await Self.occupiedParts(store)
    #expect(before.allSatisfy { $0 >= 8 }, "\(before)")
    _ = try await store.compact()
    #expect(try await store.segmentStatistics().contains(where: \.isClustered))
    let after = try await Self.occupiedParts(store)
    if try await store.segmentStatistics().count == 1 {
      // A column is half as wide as a row is high: it lies in one row, or on the edge of two.
      #expect(after.allSatisfy { $0 <= 2 }, "\(after)")
    }
    try await store.close()
  }

  @Test func compactionWritesOrderedRecordsByKeyAndOthersBySequence() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(.mapped))
    var model: Model = [:]
    var random = SeededGenerator(seed: 1)
    try await Self.fill(store, &model, &random)
    _ = try await store.compact()
    try await store.close()
    var clustered = 0
    for segment in try directory.segments() where try segment.header.flags.contains(.clustered) {
      clustered += 1
      let bytes = [UInt8](try Data(contentsOf: segment))
      let records = try GoldenStore.places(in: bytes).filter(\.header.kind.isOperation)
      let keyspaces = Dictionary(grouping: records, by: \.header.keyspace)
      #expect(keyspaces.count == 2)
      let id = try #require(keyspaces.keys.min())
      let keys = try #require(keyspaces[id]).map { place, header in
        Key([UInt8](bytes[place + header.keyOffset..<place + header.valueOffset]))
      }
      #expect(keys == keys.sorted() && keys.count > 10)
      #expect(keys != model.keys.shuffled(using: &random))
      let others = try #require(keyspaces[keyspaces.keys.max()!]).map(\.header.sequence)
      #expect(others == others.sorted() && others.count > 10)
      let sequences = try #require(keyspaces[id]).map(\.header.sequence)
      #expect(sequences != sequences.sorted(), "the order of the keys is that of the puts")
    }
    #expect(clustered > 0)
  }

  /// The feed returns the changes of a clustered segment in the order in which they happened, and
  /// so does a walk over the live records.
  @Test(arguments: OrderedKeyspaceTests.modes)
  func changesOfAClusteredLogComeInTheOrderOfTheirSequenceNumbers(
    mode: Store.Configuration.IOMode
  ) async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(mode))
    var model: Model = [:]
    var random = SeededGenerator(seed: 7)
    try await Self.fill(store, &model, &random, deletes: false)
    let ordered = try store.orderedKeyspace(named: "k")
    let snapshot = try await store.snapshot().keyspace(named: "k")
    var wanted: [SequenceNumber] = []
    for key in model.keys {
      wanted.append(try #require(try snapshot.versionedValue(forKey: key)).sequence)
    }
    wanted.sort()
    _ = try await store.compact()
    #expect(try await store.segmentStatistics().allSatisfy { $0.isClustered || !$0.isSealed })
    var found: [SequenceNumber] = []
    for try await change in store.contentsAndChanges() {
      if change.keyspace == "k" { found.append(change.sequence) }
      if found.count == wanted.count { break }
    }
    #expect(found == wanted)
    var walked: [SequenceNumber] = []
    var next: LiveWalk? = LiveWalk()
    while let walk = next {
      let page = try await ordered.livePage(walk)
      walked += page.entries.map(\.sequence)
      next = page.next
    }
    #expect(walked == wanted)
    // From the middle on.
    let middle = wanted[wanted.count / 2]
    found = []
    for try await change in ordered.changes(after: middle) {
      found.append(change.sequence)
      if found.count == wanted.count { break }
      if change.sequence == wanted.last { break }
    }
    #expect(found == wanted.filter { $0 > middle })
    try await store.close()
  }

  /// A segment with more changes than a window, in steps of a few bytes.
  @Test(arguments: OrderedKeyspaceTests.modes, [1, 7, 100])
  func feedOfALongClusteredSegmentMissesNoChange(
    mode: Store.Configuration.IOMode, windowCount: Int
  ) async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(mode))
    var model: Model = [:]
    var random = SeededGenerator(seed: 11)
    try await Self.fill(store, &model, &random)
    _ = try await store.compact()
    let found = try await store.feedSequences(windowCount: windowCount)
    #expect(found.count >= model.count)
    #expect(found == found.sorted() && Set(found).count == found.count)
    #expect(found == (try await store.feedSequences(windowCount: 1 << 16)))
    try await store.close()
  }

  /// Regression: the places of a long segment took several mebibytes.
  @Test func feedHoldsNoMoreThanAMebibyteOfPlaces() async throws {
    var configuration = Self.configuration(.mapped)
    configuration.segmentSizeBytes = 16 << 20
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let keyspace = try store.orderedKeyspace(named: "k")
    let count = 70_000
    for first in stride(from: 0, to: count, by: 10_000) {
      try await store.write { batch in
        for number in first..<first + 10_000 {
          try batch.set([1], forKey: Key("\(number)"), in: keyspace)
        }
      }
    }
    _ = try await store.compact()
    #expect(try await store.segmentStatistics().contains(where: \.isClustered))
    let (found, windowBytes) = try await store.feedWindow()
    #expect(found == count)
    #expect(windowBytes > 0 && windowBytes <= 1 << 20)
    try await store.close()
  }

  /// An iterator finds the places of many records at once, and may read the records much later.
  @Test func feedDoesNotReturnARecordThatChangedAfterItsPlaceWasFound() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(.mapped))
    var model: Model = [:]
    var random = SeededGenerator(seed: 5)
    try await Self.fill(store, &model, &random, count: 300, deletes: false)
    _ = try await store.compact()
    let (segment, records) = try Self.clusteredSegment(in: directory)
    let last = try #require(records.max { $0.header.sequence < $1.header.sequence })
    let error = await #expect(throws: StoreError.self) {
      try await store.readFeed {
        try segment.flip(at: last.offset + last.header.valueOffset - 1)
      }
    }
    #expect(error?.code == .corrupted && error?.offset == UInt64(last.offset))
    try await store.close()
  }

  /// The record that has the number of another one is not live: no digest shows it.
  @Test(arguments: OrderedKeyspaceTests.modes)
  func verifyingFindsASequenceNumberThatOccursTwice(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    try await withStore(at: directory.path, configuration: Self.configuration(mode)) { store in
      let keyspace = try store.orderedKeyspace(named: "k")
      for key in ["d", "b", "a", "c"] as [Key] { try await keyspace.set([1], forKey: key) }
      try await store.compact()
      try await keyspace.set([2], forKey: "b")
    }
    let (segment, records) = try Self.clusteredSegment(in: directory)
    #expect(records.map(\.header.sequence) == [3, 2, 4, 1])
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.key == Array("b".utf8) },
      { bytes, _ in bytes.store(UInt32(3), at: 8) })
    let store = try Store(at: directory.path, configuration: Self.configuration(mode))
    let problems = try await store.verify().problems
    #expect(problems.map(\.code) == [.corrupted])
    #expect(problems.first?.file == segment.lastPathComponent)
    #expect(problems.first?.offset == UInt64(place))
    #expect(problems.first?.message.contains("sequence 3 occurs twice") == true)
    try await store.close()
  }

  @Test func salvageOfADamagedClusteredSegmentLosesOnlyTheDamagedRecord() async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: Self.configuration(.mapped))
    var model: Model = [:]
    var random = SeededGenerator(seed: 3)
    try await Self.fill(store, &model, &random, count: 400)
    _ = try await store.compact()
    try await store.close()
    let (segment, records) = try Self.clusteredSegment(in: directory)
    try segment.flip(at: records[records.count / 2].offset + RecordHeader.fixedLength)
    let report = try await Store.salvage(
      directory.path, to: FilePath(directory.url.path).appending("salvaged"))
    #expect(report.losses.count == 1)
    let salvaged = try Store(
      at: FilePath(directory.url.path).appending("salvaged"),
      configuration: Self.configuration(.mapped))
    let count = try await salvaged.keyspace(named: "k").count()
    #expect(count == model.count - 1)
    try await salvaged.close()
  }
}

extension Store {
  /// Reads the whole log as a feed does, and calls the body after the first step that returned an
  /// operation.
  fileprivate func readFeed(_ body: @Sendable () throws -> Void) throws {
    var place = FeedPlace(sequence: 0)
    var hasCalled = false
    while place.sequence < engine!.log.lastSequence {
      let addresses = try engine!.nextOperations(
        &place, keyspace: nil, through: .max, FeedLimits(count: 1, bytes: 1 << 20))
      for address in addresses { _ = try engine!.operation(at: address) }
      if !addresses.isEmpty, !hasCalled {
        try body()
        hasCalled = true
      }
    }
  }

  /// Reads the whole log in the steps of a feed. Returns the number of its operations, and the
  /// largest size of the window after a step.
  fileprivate func feedWindow() throws -> (count: Int, bytes: Int) {
    var place = FeedPlace(sequence: 0)
    var (count, bytes) = (0, 0)
    while place.sequence < engine!.log.lastSequence {
      count += try engine!.nextOperations(
        &place, keyspace: nil, through: .max, FeedLimits(count: 256, bytes: 1 << 20)
      ).count
      bytes = max(bytes, place.windowBytes)
    }
    return (count, bytes)
  }

  /// Returns the sequence numbers of all operations of the log, as a feed reads them.
  fileprivate func feedSequences(windowCount: Int) throws -> [UInt64] {
    var place = FeedPlace(sequence: 0)
    place.windowCount = windowCount
    var result: [UInt64] = []
    while place.sequence < engine!.log.lastSequence {
      for address in try engine!.nextOperations(
        &place, keyspace: nil, through: .max, FeedLimits(count: 5, bytes: 300))
      {
        result.append(try engine!.operation(at: address).header.sequence)
      }
    }
    return result
  }
}

/// The buffer of a compaction that orders records by key.
@Suite struct KeyOrderBufferTests {
  /// The bytes of a segment that a compaction reads.
  private final class Input {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 16, alignment: 16)
    private let values = SegmentValues(dictionary: [], name: "input", seed: Checksum(77))
    private var offset = 128

    deinit { memory.deallocate() }

    /// Writes a put after those before, and adds it to a buffer.
    ///
    /// - Returns: false when the buffer has no room.
    func add(
      _ key: [UInt8], _ sequence: UInt64, isMapped: Bool, to buffer: inout KeyOrderBuffer
    ) throws -> Bool {
      let base = try #require(memory.baseAddress) + offset
      let length = key.withUnsafeBytes { key in
        let draft = RecordDraft(
          sequence: sequence, kind: .put, keyspace: 1, key: key,
          value: UnsafeRawBufferPointer(start: nil, count: 0), compressed: nil)
        draft.write(to: base, at: UInt64(offset), seed: Checksum(77))
        return draft.length
      }
      let candidate = CompactionCandidate(
        address: Address(slot: 0, offset: offset), length: length, hash: 0, sequence: sequence,
        keyspace: 1, isDelete: false, isMapped: isMapped, isOrdered: true,
        expiryMilliseconds: .max, orderedKey: isMapped ? nil : [])
      guard buffer.hasRoom(for: candidate) else { return false }
      let header = try #require(RecordHeader.parse(base, length: length))
      buffer.add(RecordReference(base: base, header: header), candidate, values)
      offset += aligned(length)
      return true
    }
  }

  @Test(arguments: [true, false], 0..<20 as Range<UInt64>)
  func recordsLeaveTheBufferInTheOrderOfTheirKeys(isMapped: Bool, seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    var buffer = KeyOrderBuffer(heldLimitBytes: 4096)
    for _ in 0..<3 {
      let input = Input()
      var expected: [(key: Key, sequence: UInt64)] = []
      while expected.count < 400 {
        let prefix = [UInt8](repeating: 9, count: Int(random.next() % 2) * 12)
        let key = prefix + (0..<(random.next() % 10)).map { _ in UInt8(random.next() % 3) }
        // Numbers need not rise in an input that is in key order itself.
        let sequence = random.next() % (1 << 40) + 1
        guard try input.add(key, sequence, isMapped: isMapped, to: &buffer) else { break }
        expected.append((Key(key), sequence))
      }
      #expect(isMapped ? expected.count == 400 : expected.count > 50)
      if !isMapped { input.memory.initializeMemory(as: UInt8.self, repeating: 0) }
      var found: [(key: Key, sequence: UInt64)] = []
      while try buffer.writeNext({ record, _, _ in
        found.append((Key([UInt8](record.key)), record.header.sequence))
      }) {}
      expected.sort { ($0.key, $0.sequence) < ($1.key, $1.sequence) }
      #expect(found.map(\.key) == expected.map(\.key), "seed \(seed)")
      #expect(found.map(\.sequence) == expected.map(\.sequence), "seed \(seed)")
      let (isEmpty, waitingBytes) = (buffer.isEmpty, buffer.waitingBytes)
      #expect(isEmpty && waitingBytes == 0)
    }
  }

  /// The kernel may refuse to map one of several segments.
  @Test(arguments: [[true, false], [false, true], [true, false, true, false]])
  func bufferTakesRecordsOfMappedAndUnmappedInputs(inputs: [Bool]) throws {
    var buffer = KeyOrderBuffer(heldLimitBytes: 4096)
    for round in 0..<2 {
      let input = Input()
      for (index, isMapped) in inputs.enumerated() {
        let key = [UInt8(inputs.count - index)]
        let isTaken = try input.add(key, UInt64(index + 1), isMapped: isMapped, to: &buffer)
        #expect(isTaken)
      }
      var keys: [[UInt8]] = []
      while try buffer.writeNext({ record, _, _ in keys.append([UInt8](record.key)) }) {}
      #expect(keys == inputs.indices.map { [UInt8($0 + 1)] }, "round \(round)")
    }
  }

  @Test func recordThatChangesInItsMappingIsNotCopied() throws {
    var buffer = KeyOrderBuffer()
    let input = Input()
    let isTaken = try input.add([1, 2, 3], 5, isMapped: true, to: &buffer)
    #expect(isTaken)
    input.memory[128 + RecordHeader.fixedLength + 3] ^= 1
    do {
      _ = try buffer.writeNext { _, _, _ in Issue.record("a changed record is copied") }
      Issue.record("a changed record is not noticed")
    } catch {
      #expect(error.code == .corrupted && error.file == "input" && error.offset == 128)
    }
  }
}

/// The search for a number that occurs twice.
@Suite struct RepetitionCheckTests {
  private static func check(_ numbers: [UInt64], limit: Int) -> (UInt64?, passCount: Int) {
    var check = RepetitionCheck(limit: limit)
    var passCount = 0
    repeat {
      for number in numbers { check.add(number) }
      passCount += 1
    } while check.endPass()
    return (check.repeated, passCount)
  }

  @Test(arguments: [1, 2, 7, 100, 1000], 0..<20 as Range<UInt64>)
  func numberThatOccursTwiceIsFoundWhereverItIs(limit: Int, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    // Dense numbers, numbers far apart, and numbers with equal low bits.
    let factor = [1, 1 << 20, 1 << 47][Int(seed % 3)] as UInt64
    let numbers = (1...300).shuffled(using: &random).map { UInt64($0) * factor }
    let (found, passCount) = Self.check(numbers, limit: limit)
    #expect(found == nil, "seed \(seed)")
    #expect(passCount <= 300 / limit + 1, "seed \(seed)")
    for number in [numbers[0], numbers[299], factor, 300 * factor] {
      let place = Int(random.next() % 301)
      var repeated = numbers
      repeated.insert(number, at: place)
      #expect(Self.check(repeated, limit: limit).0 == number, "seed \(seed), at \(place)")
    }
  }

  @Test func manyEqualNumbersNeedOnePass() {
    let (found, passCount) = Self.check(Array(repeating: 5, count: 1000), limit: 10)
    #expect(found == 5 && passCount == 1)
    let (nothing, onePass) = Self.check([], limit: 10)
    #expect(nothing == nil && onePass == 1)
  }
}
