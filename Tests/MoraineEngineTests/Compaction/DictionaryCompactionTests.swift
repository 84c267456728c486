import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import Testing

/// Compaction finds the bytes that values have in common, and stores them once in a segment.
@Suite struct DictionaryCompactionTests {
  static let modes: [Store.Configuration.IOMode] = [.mapped, .positional]

  @Test(arguments: modes)
  func similarDocumentsShrink(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.dictionaries(mode)
    let store = try Store(at: directory.path, configuration: configuration)
    var model: [Int: [UInt8]] = [:]
    try await fill(store, 0..<6000, &model)
    let digest = try await store.statistics().digest
    let before = try await store.statistics().diskBytes
    try await store.compact()
    #expect(try await store.statistics().diskBytes * 2 < before)
    #expect(try await store.statistics().digest == digest)
    #expect(try await store.compact().inputSegmentCount == 0)
    #expect(try directory.segments().contains { try $0.codecs.contains(.lz4Dictionary) })
    try await check(store, model)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    #expect(try await again.statistics().digest == digest)
    try await check(again, model)
    try await again.close()
  }

  /// Segments with different dictionaries are merged, with new segments and deletes between them.
  @Test(arguments: modes)
  func dictionariesAreMerged(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.dictionaries(mode)
    let store = try Store(at: directory.path, configuration: configuration)
    var model: [Int: [UInt8]] = [:]
    try await fill(store, 0..<6000, &model)
    try await store.compact()
    try await fill(store, 5000..<9000, &model)
    try await store.compact()
    #expect(try directory.segments().filter { try !$0.header.dictionary.isEmpty }.count > 1)
    for key in model.keys.sorted() where key % 7 != 3 {
      try await store.removeValue(forKey: Key("\(key)"))
      model[key] = nil
    }
    let digest = try await store.statistics().digest
    try await store.compact()
    #expect(try await store.compact().inputSegmentCount == 0)
    #expect(try await store.statistics().digest == digest)
    #expect(try directory.segments().contains { try !$0.header.dictionary.isEmpty })
    try await check(store, model)
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    try await check(again, model)
    try await again.close()
  }

  /// A single segment that is rewritten for its garbage keeps its dictionary.
  @Test(arguments: modes)
  func aDictionaryIsKept(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.dictionaries(mode)
    let store = try Store(at: directory.path, configuration: configuration)
    var model: [Int: [UInt8]] = [:]
    try await fill(store, 0..<1500, &model)
    try await store.compact()
    let dictionary = try #require(try directory.segments().first).header.dictionary
    #expect(!dictionary.isEmpty)
    try await store.removeValue(forKey: "7")
    model[7] = nil
    // Also where no new dictionary would be made.
    try await store.close()
    configuration.compaction.sharesDictionaries = false
    let again = try Store(at: directory.path, configuration: configuration)
    try await again.compact(segments: 0..<1)
    #expect(try directory.segments().contains { try $0.header.dictionary == dictionary })
    try await check(again, model)
    // The merged segment has no dictionary.
    try await fill(again, 0..<3, &model)
    try await again.compact()
    for segment in try directory.segments() { #expect(try segment.header.dictionary.isEmpty) }
    try await check(again, model)
    try await again.close()
  }

  @Test(arguments: modes)
  func withoutThePolicyNoDictionaryIsShared(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.dictionaries(mode)
    configuration.compaction.sharesDictionaries = false
    let store = try Store(at: directory.path, configuration: configuration)
    var model: [Int: [UInt8]] = [:]
    try await fill(store, 0..<3000, &model)
    for key in 0..<50 { try await store.removeValue(forKey: Key("\(key)")) }
    model = model.filter { $0.key >= 50 }
    #expect(try await store.compact().inputSegmentCount > 0)
    for segment in try directory.segments() {
      #expect(try segment.header.dictionary.isEmpty)
      #expect(try !segment.codecs.contains(.lz4Dictionary))
    }
    try await check(store, model)
    try await store.close()
  }

  @Test(arguments: modes)
  func valuesWithNothingInCommonGetNoDictionary(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .dictionaries(mode))
    var generator = SeededGenerator(seed: 3)
    var model: [Int: [UInt8]] = [:]
    for key in 0..<3000 {
      model[key] = (0..<100).map { _ in UInt8.random(in: 0...255, using: &generator) }
      try await store.set(model[key]!, forKey: Key("\(key)"))
    }
    let before = try await store.statistics().liveBytes
    #expect(try await store.compact().inputSegmentCount > 0)
    #expect(try await store.compact().inputSegmentCount == 0)
    #expect(try await store.statistics().liveBytes == before)
    for segment in try directory.segments() { #expect(try segment.header.dictionary.isEmpty) }
    try await check(store, model)
    try await store.close()
  }

  /// In a segment with a dictionary, values that do not compress are stored raw, and long or empty
  /// values stay as they were.
  @Test(arguments: modes)
  func eachValueIsStoredInItsBestForm(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let store = try Store(at: directory.path, configuration: .dictionaries(mode))
    var generator = SeededGenerator(seed: 4)
    var model: [Int: [UInt8]] = [:]
    try await fill(store, 0..<1000, &model)
    for (key, count) in [(10_001, 300), (10_002, 0), (10_003, 20), (10_004, 70_000)] {
      model[key] = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    }
    model[10_005] = Array(repeating: 7, count: 100_000)
    for key in 10_001...10_005 { try await store.set(model[key]!, forKey: Key("\(key)")) }
    try await store.compact()
    let records = try directory.segments().flatMap { try $0.records }
    func codec(_ key: Int) -> RecordCodec? {
      records.last { $0.key.elementsEqual("\(key)".utf8) }?.codec
    }
    #expect(codec(5) == .lz4Dictionary)
    for key in 10_001...10_004 { #expect(codec(key) == .raw) }
    #expect(codec(10_005) == .lz4)
    try await check(store, model)
    try await store.close()
  }

  @Test(arguments: modes)
  func aDamagedDictionaryIsFound(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.dictionaries(mode)
    let store = try Store(at: directory.path, configuration: configuration)
    var model: [Int: [UInt8]] = [:]
    try await fill(store, 0..<1500, &model)
    try await store.compact()
    let segment = try #require(try directory.segments().first)
    #expect(try segment.header.dictionary.count > 300)
    try segment.flip(at: SegmentHeader.fixedLength + 200)
    #expect(try await !store.verify().isSound)
    // Compaction does not copy the value either.
    try await store.removeValue(forKey: "3")
    await #expect(throws: StoreError.self) { try await store.compact(segments: 0..<1) }
    #expect(try directory.segments().contains(segment))
    try await store.close()
    let error = #expect(throws: StoreError.self) {
      try Store(at: directory.path, configuration: configuration)
    }
    #expect(error?.code == .corrupted)
    #expect(error?.message.contains("header checksum") == true)
    try segment.flip(at: SegmentHeader.fixedLength + 200)
    model[3] = nil
    let again = try Store(at: directory.path, configuration: configuration)
    try await check(again, model)
    try await again.close()
  }

  /// Stores documents and some long values; the keys are the numbers.
  private func fill(
    _ store: Store, _ keys: Range<Int>, _ model: inout [Int: [UInt8]]
  ) async throws {
    for (key, value) in zip(keys, SimilarDocuments.make(keys)) {
      model[key] = value
      try await store.set(value, forKey: Key("\(key)"))
    }
  }

  private func check(_ store: Store, _ model: [Int: [UInt8]]) async throws {
    #expect(try await store.count() == model.count)
    for (key, value) in model {
      #expect(try await store.value(forKey: Key("\(key)")) == value)
      let lent = try await store.withValue(forKey: Key("\(key)")) { span in
        span.withUnsafeBytes { [UInt8]($0) }
      }
      #expect(lent == value)
    }
    var seen = 0
    try await store.scan { entry in
      seen += 1
      let key = Int(String(decoding: entry.key.bytes, as: UTF8.self))!
      return model[key] == entry.value
    }
    #expect(seen == model.count)
    #expect(try await store.verify().isSound)
  }
}
