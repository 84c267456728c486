import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Ordered keyspaces, compared with a sorted dictionary.
@Suite(.timeLimit(.minutes(10))) struct OrderedKeyspaceTests {
  static let modes = [Store.Configuration.IOMode.mapped, .positional]

  private typealias Model = [Key: [UInt8]]

  private static func configuration(
    _ mode: Store.Configuration.IOMode, isShared: Bool = false
  ) -> Store.Configuration {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 8192, ioMode: mode)
    if isShared { configuration.sharing = .shared }
    return configuration
  }

  private static func key(_ random: inout SeededGenerator) -> Key {
    switch random.next() % 3 {
    case 0: Key("user/\(random.next() % 20)/item/\(random.next() % 20)")
    case 1: Key((0..<(random.next() % 4)).map { _ in UInt8(random.next() % 3) })
    default: Key([UInt8](repeating: 7, count: Int(300 + random.next() % 3)))
    }
  }

  private static func expect(
    _ keyspace: Keyspace, equals model: Model, _ random: inout SeededGenerator, _ replay: Comment
  ) async throws {
    let keys = model.keys.sorted()
    #expect(try await keyspace.count(in: .all) == keys.count, replay)
    let all = try await keyspace.entries(limit: 10_000)
    #expect(all.entries.map(\.key) == keys, replay)
    #expect(all.entries.map(\.value) == keys.map { model[$0] }, replay)
    #expect(all.next == nil, replay)
    var paged: [Key] = []
    var page = try await keyspace.entries(order: .descending, limit: 7)
    while true {
      paged += page.entries.map(\.key)
      guard let next = page.next else { break }
      page = try await keyspace.entries(after: next, limit: 7)
    }
    #expect(paged == keys.reversed(), replay)
    let (one, other) = (Self.key(&random), Self.key(&random))
    let range = min(one, other)..<max(one, other)
    let inside = keys.filter(range.contains)
    #expect(try await keyspace.count(in: range) == inside.count, replay)
    #expect(try await keyspace.keys(in: range, limit: 10_000) == inside, replay)
    #expect(try await keyspace.first(in: range)?.key == inside.first, replay)
    #expect(try await keyspace.last(in: range)?.key == inside.last, replay)
    #expect(try await keyspace.entry(after: one)?.key == keys.first { $0 > one }, replay)
    #expect(try await keyspace.entry(before: one)?.key == keys.last { $0 < one }, replay)
    #expect(try await keyspace.value(forKey: one) == model[one], replay)
    #expect(try await keyspace.contains(other) == (model[other] != nil), replay)
    try await expect(try await keyspace.store.snapshot(), keyspace.name, model, range, replay)
  }

  private static func expect(
    _ snapshot: Store.Snapshot, _ name: String, _ model: Model, _ range: Range<Key>,
    _ replay: Comment
  ) async throws {
    let snapshot = snapshot.keyspace(named: name)
    let keys = model.keys.sorted()
    var found: [Key] = []
    try snapshot.scanSpans(in: .all) { key, value in
      let bytes = Key(key.withUnsafeBytes { [UInt8]($0) })
      found.append(bytes)
      return value.withUnsafeBytes { [UInt8]($0) } == model[bytes]
    }
    #expect(found == keys, replay)
    found = []
    try snapshot.scanKeys(in: range, order: .descending) { key in
      found.append(Key(key.withUnsafeBytes { [UInt8]($0) }))
      return true
    }
    #expect(found == keys.filter(range.contains).reversed(), replay)
    #expect(try snapshot.count(in: range) == found.count, replay)
    #expect(try snapshot.last()?.key == keys.last, replay)
    #expect(try snapshot.value(forKey: range.lowerBound) == model[range.lowerBound], replay)
  }

  private static func change(
    _ keyspace: Keyspace, _ other: Keyspace, _ model: inout Model, _ random: inout SeededGenerator
  ) async throws {
    switch random.next() % 5 {
    case 0...1:
      let (key, value) = (Self.key(&random), [UInt8](repeating: 3, count: Int(random.next() % 60)))
      try await keyspace.set(value, forKey: key)
      model[key] = value
    case 2:
      let key = Self.key(&random)
      let removed = try await keyspace.removeValue(forKey: key)
      #expect((removed != nil) == (model.removeValue(forKey: key) != nil))
    default:
      let operations = (0..<(1 + random.next() % 12)).map { _ in
        (Self.key(&random), random.next() % 3 == 0 ? nil : [UInt8(random.next() % 9)])
      }
      try await keyspace.store.write { batch in
        for (key, value) in operations {
          if let value {
            try batch.set(value, forKey: key, in: keyspace)
            try batch.set(value, forKey: key, in: other)
          } else {
            try batch.removeValue(forKey: key, in: keyspace)
          }
        }
      }
      for (key, value) in operations { model[key] = value }
    }
  }

  @Test(arguments: modes, 0..<12 as Range<UInt64>)
  func orderedKeyspaceEqualsASortedDictionary(
    mode: Store.Configuration.IOMode, seed: UInt64
  ) async throws {
    let storage = MemoryStorage()
    var random = SeededGenerator(seed: seed)
    var model: Model = [:]
    for run in 0..<4 {
      let store = try Store(on: storage, at: "store", configuration: Self.configuration(mode))
      // The second run makes the keyspace of half of the seeds ordered.
      let keyspace =
        run == 0 && seed % 2 == 0
        ? try store.keyspace(named: "k") : try store.orderedKeyspace(named: "k")
      let other = try store.keyspace(named: "hashed")
      for step in 0..<80 {
        let replay: Comment = "seed \(seed), run \(run), step \(step)"
        try await Self.change(keyspace, other, &model, &random)
        if random.next() % 40 == 0 { _ = try await store.compact() }
        if step % 20 == 0, keyspace.wantsOrder {
          try await Self.expect(keyspace, equals: model, &random, replay)
        }
      }
      let verification = try await store.verify()
      #expect(verification.isSound, "seed \(seed), run \(run): \(verification.problems)")
      #expect(try await keyspace.count() == model.count)
      try await store.close()
    }
  }

  /// Each opening of a shared store has its own tree.
  @Test(arguments: modes, 0..<4 as Range<UInt64>)
  func everyProcessHasTheSameOrder(mode: Store.Configuration.IOMode, seed: UInt64) async throws {
    let storage = MemoryStorage()
    let configuration = Self.configuration(mode, isShared: true)
    let stores = try (0..<3).map { _ in
      try Store(on: storage, at: "store", configuration: configuration)
    }
    var random = SeededGenerator(seed: seed)
    var model: Model = [:]
    for step in 0..<120 {
      let store = stores[Int(random.next() % 3)]
      let keyspace = try step < 20 ? store.keyspace(named: "k") : store.orderedKeyspace(named: "k")
      try await Self.change(keyspace, try store.keyspace(named: "hashed"), &model, &random)
      if step % 10 == 9, step > 20 {
        let reader = try stores[Int(random.next() % 3)].orderedKeyspace(named: "k")
        try await Self.expect(reader, equals: model, &random, "seed \(seed), step \(step)")
      }
      if random.next() % 50 == 0 { _ = try await store.compact() }
    }
    for store in stores { try await store.close() }
  }

  @Test(arguments: modes)
  func rangesOfAKeyspaceWithoutOrderAreRefused(mode: Store.Configuration.IOMode) async throws {
    var configuration = Self.configuration(mode)
    configuration.ordersKeyspaces = false
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    let keyspace = try store.keyspace(named: "k")
    #expect(try await keyspace.entries(limit: 1).entries.isEmpty)
    try await keyspace.set([1], forKey: "a")
    let error = await #expect(throws: StoreError.self) { try await keyspace.first() }
    #expect(error?.code == .invalidArgument)
    let snapshot = try await store.snapshot().keyspace(named: "k")
    #expect(throws: StoreError.self) { try snapshot.first() }
    #expect(try await store.orderedKeyspace(named: "k").first()?.key == "a")
    #expect(try await keyspace.first()?.key == "a")
    try await store.close()
  }

  @Test func keysOfAnOrderedKeyspaceHaveALimit() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(.mapped))
    let keyspace = try store.orderedKeyspace(named: "k")
    let long = Key([UInt8](repeating: 1, count: StoreLimits.orderedKeyLengthBytes + 1))
    let error = await #expect(throws: StoreError.self) {
      try await keyspace.set([1], forKey: long)
    }
    #expect(error?.code == .keyTooLarge)
    #expect(try await keyspace.value(forKey: long) == nil)
    #expect(try await keyspace.removeValue(forKey: long) == nil)
    try await keyspace.set([1], forKey: Key(long.bytes.dropLast()))
    #expect(try await keyspace.count() == 1)
    try await store.close()
  }

  /// Regression: an opening replays records that are not live, and a delete with a long key stopped
  /// it after the keyspace had become ordered.
  @Test(arguments: modes)
  func keyspaceWithAReplacedLongKeyIsNotOrdered(mode: Store.Configuration.IOMode) async throws {
    let storage = MemoryStorage()
    var configuration = Self.configuration(mode)
    configuration.ordersKeyspaces = false
    let store = try Store(on: storage, at: "store", configuration: configuration)
    let keyspace = try store.keyspace(named: "k")
    let long = Key([UInt8](repeating: 1, count: 600))
    try await keyspace.set([1], forKey: long)
    try await keyspace.removeValue(forKey: long)
    try await keyspace.set([1], forKey: "a")
    let ordered = try store.orderedKeyspace(named: "k")
    let error = await #expect(throws: StoreError.self) { try await ordered.first() }
    #expect(error?.code == .keyTooLarge)
    // Compaction drops the key and its delete.
    for number in 0..<300 {
      try await keyspace.set([UInt8](repeating: 2, count: 90), forKey: Key("\(number)"))
    }
    _ = try await store.compact()
    _ = try await store.compact()
    #expect(try await ordered.last()?.key == "a")
    try await store.close()
    let again = try Store(on: storage, at: "store", configuration: configuration)
    #expect(try await again.keyspace(named: "k").count(in: .all) == 301)
    try await again.close()
  }

  /// Pages of one entry: the end of each leaf is the end of a page.
  @Test(arguments: modes)
  func rangesOverSeveralLeavesHaveEachEntryOnce(mode: Store.Configuration.IOMode) async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(mode))
    let keyspace = try store.orderedKeyspace(named: "k")
    let keys = (0..<1000).map { Key("\(1000 + $0)") }
    for number in 0..<1000 {
      try await keyspace.set([UInt8(number % 7)], forKey: keys[number * 389 % 1000])
    }
    let snapshot = try await keyspace.snapshot()
    for range in [KeyRange(), KeyRange(from: keys[150], upTo: keys[850])] {
      for order in [KeyOrder.ascending, .descending] {
        let inside = keys.filter(range.contains)
        let expected = order == .ascending ? inside : inside.reversed()
        var paged: [Key] = []
        var page = try await keyspace.entries(in: range, order: order, limit: 1)
        paged += page.entries.map(\.key)
        while let token = page.next {
          page = try await keyspace.entries(after: token, limit: 1)
          paged += page.entries.map(\.key)
        }
        #expect(paged == expected)
        var (scanned, spans, onlyKeys): ([Key], [Key], [Key]) = ([], [], [])
        try snapshot.scan(in: range, order: order) { entry in
          scanned.append(entry.key)
          return true
        }
        try snapshot.scanSpans(in: range, order: order) { key, _ in
          spans.append(Key(key.withUnsafeBytes { [UInt8]($0) }))
          return true
        }
        try snapshot.scanKeys(in: range, order: order) { key in
          onlyKeys.append(Key(key.withUnsafeBytes { [UInt8]($0) }))
          return true
        }
        #expect(scanned == expected && spans == expected && onlyKeys == expected)
      }
    }
    try await store.close()
  }

  /// Regression: a snapshot of the moment before the keyspace became ordered was returned again.
  @Test func snapshotAfterTheOrderingShowsTheOrder() async throws {
    var configuration = Self.configuration(.mapped)
    configuration.ordersKeyspaces = false
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    try await store.keyspace(named: "k").set([1], forKey: "a")
    let before = try await store.snapshot()
    let keyspace = try store.orderedKeyspace(named: "k")
    #expect(try await keyspace.first()?.key == "a")
    #expect(try await keyspace.snapshot().first()?.key == "a")
    #expect(try before.keyspace(named: "k").value(forKey: "a") == [1])
    try await store.close()
  }

  /// A keyspace that is new reads nothing: damage elsewhere does not stop its creation.
  @Test func newOrderedKeyspaceReadsNoOtherRecord() async throws {
    let directory = try TestDirectory()
    var configuration = Self.configuration(.mapped)
    configuration.ordersKeyspaces = false
    let store = try Store(at: directory.path, configuration: configuration)
    var random = SeededGenerator(seed: 1)
    let value = (0..<400).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    try await store.set(value, forKey: "damaged")
    let name = try #require(try await store.segmentStatistics().first?.number.fileName)
    let file = try #require(
      try DiskStorage().openDirectory(directory.path)?.openFile(name, .readWrite))
    let length = try await store.segmentStatistics()[0].lengthBytes
    try [UInt8](repeating: 0xFF, count: 8).withUnsafeBytes { try file.write($0, at: length - 100) }
    let keyspace = try store.orderedKeyspace(named: "k")
    try await keyspace.set([1], forKey: "a")
    #expect(try await keyspace.first()?.key == "a")
    await #expect(throws: StoreError.self) { try await store.orderedKeyspace(named: "").first() }
    try await keyspace.set([1], forKey: "b")
  }

  @Test func removeAllRemovesExactlyARange() async throws {
    let store = try Store(
      on: MemoryStorage(), at: "store", configuration: Self.configuration(.mapped))
    let keyspace = try store.orderedKeyspace(named: "k")
    for number in 0..<2500 { try await keyspace.set([1], forKey: Key("tmp/\(number)")) }
    for key in ["tm", "tmp", "tmp0", "tmo", "u"] { try await keyspace.set([2], forKey: Key(key)) }
    #expect(try await keyspace.removeAll(in: .prefix("tmp/")) == 2500)
    #expect(
      try await keyspace.keys(limit: 10) == ["tm", "tmo", "tmp", "tmp0", "u"])
    try await store.close()
  }

  /// A cursor moves through a range as an index moves through a sorted array.
  @Test(arguments: 0..<8 as Range<UInt64>)
  func cursorEqualsAnIndexOfASortedArray(seed: UInt64) async throws {
    let replay: Comment = "seed \(seed)"
    var random = SeededGenerator(seed: seed)
    let store = try Store(
      on: MemoryStorage(), at: "store",
      configuration: Self.configuration(seed % 2 == 0 ? .mapped : .positional))
    let keyspace = try store.orderedKeyspace(named: "ordered")
    var model: Model = [:]
    for _ in 0..<Int(random.next() % 900) {
      let key = Self.key(&random)
      model[key] = [UInt8(truncatingIfNeeded: random.next())]
      try await keyspace.set(try #require(model[key]), forKey: key)
    }
    let bounds = [Self.key(&random), Self.key(&random)].sorted()
    let range = random.next() % 3 == 0 ? KeyRange() : KeyRange(from: bounds[0], upTo: bounds[1])
    let keys = model.keys.filter(range.contains).sorted()
    let snapshot = try await store.snapshot().keyspace(named: "ordered")
    var cursor = try snapshot.cursor(in: range)
    var place = 0
    for _ in 0..<400 {
      switch random.next() % 10 {
      case 0:
        let key = Self.key(&random)
        try cursor.seek(to: key)
        place = keys.firstIndex { $0 >= key } ?? keys.count
      case 1:
        cursor.seekToEnd()
        place = keys.count
      case 2:
        cursor.seekToStart()
        place = 0
      case 3...6:
        let entry = try cursor.next()
        #expect(entry?.key == (place < keys.count ? keys[place] : nil), replay)
        #expect(entry?.value == entry.flatMap { model[$0.key] }, replay)
        place = min(place + 1, keys.count)
      default:
        #expect(try cursor.previous()?.key == (place > 0 ? keys[place - 1] : nil), replay)
        place = max(place - 1, 0)
      }
      #expect(cursor.remainingCount == keys.count - place, replay)
    }
    try await store.close()
  }

  /// The progress reaches its end: it counts each byte of the log twice.
  @Test func orderingAKeyspaceTellsItsProgress() async throws {
    let log = EventLog()
    var configuration = Store.Configuration.hashed()
    configuration.segmentSizeBytes = 1 << 20
    configuration.onEvent = log.add
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    var generator = SeededGenerator(seed: 5)
    let random = (0..<60_000).map { _ in UInt8.random(in: 0...255, using: &generator) }
    for number in 0..<70 {
      try await store.keyspace(named: "k").set(random, forKey: Key("\(number)"))
    }
    let segmentCount = try await store.statistics().segmentCount
    try #require(segmentCount > 1)
    #expect(try await store.orderedKeyspace(named: "k").count(in: .all) == 70)
    await log.arrival(of: "keyspaceOrdered")
    let steps = log.events.compactMap { event -> Store.Progress? in
      guard case .keyspaceOrdering("k", let progress) = event else { return nil }
      return progress
    }
    #expect(steps.count == 2 * segmentCount)
    #expect(steps.map(\.completedBytes) == steps.map(\.completedBytes).sorted())
    #expect(steps.last.map { $0.completedBytes == $0.totalBytes } == true)
    try await store.close()
  }

  /// The event says which keyspace became ordered, and how many keys it has.
  @Test func orderingAKeyspaceMakesAnEvent() async throws {
    let log = EventLog()
    var configuration = Store.Configuration.hashed()
    configuration.onEvent = log.add
    let store = try Store(on: MemoryStorage(), at: "store", configuration: configuration)
    for number in 0..<70 {
      try await store.keyspace(named: "k").set([1], forKey: Key("\(number)"))
    }
    #expect(try await store.orderedKeyspace(named: "k").count(in: .all) == 70)
    await log.arrival(of: "keyspaceOrdered")
    let ordered = log.events.compactMap { event -> Int? in
      guard case .keyspaceOrdered("k", let keyCount, _) = event else { return nil }
      return keyCount
    }
    #expect(ordered == [70])
    try await store.close()
  }
}
