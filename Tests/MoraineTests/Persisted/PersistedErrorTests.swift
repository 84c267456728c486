import Foundation
import Moraine
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

private struct Size: Codable, Hashable, Sendable {
  var width = 1
  var height = 2
}

/// A default never replaces a stored value, and every failure is reported.
@Suite(.timeLimit(.minutes(10))) struct PersistedErrorTests {
  @Test(arguments: ["", "{", #""unknown""#, "7", "null", #"{"$version":9,"$value":"dark"}"#])
  func unreadableValueIsKept(text: String) async throws {
    let folder = try Folder()
    let path = folder.url.appendingPathComponent("settings.moraine").path
    try await withStore(at: .init(path)) { store in
      try await store.set(Array(text.utf8), forKey: "theme")
    }
    let store = try PersistedStore(directory: folder.url)
    @Persisted(.theme, in: store) var theme
    @Persisted("other", in: store) var other = 1
    let code: StoreError.Code = text.contains("version") ? .newerFormat : .decodingFailed
    #expect(theme == .light)
    #expect($theme.error?.code == code)
    #expect($theme.error?.message.contains("'theme'") == true)
    #expect($theme.error?.file == path)
    theme = .dark
    $theme.withLock { $0 = .sepia }
    #expect(theme == .light, "a refused set does not change the value")
    let error = await #expect(throws: StoreError.self) { try await $theme.save() }
    #expect(error?.code == code)
    other = 2
    try await $other.save()
    #expect(try await store.keyspace?.value(forKey: "theme") == Array(text.utf8))
    $theme.overwrite(with: .sepia)
    try await $theme.save()
    #expect(theme == .sepia)
    #expect($theme.error == nil)
    #expect(try await store.keyspace?.value(forKey: "theme") == Array(#""sepia""#.utf8))
    try await store.close()
  }

  /// The error ends when the value is on its way, not when it is stored.
  @Test func overwritingEndsTheErrorAtOnce() async throws {
    for round in 0..<50 {
      let store = PersistedStore.inMemory()
      try await store.keyspace?.set([0], forKey: "theme")
      @Persisted(.theme, in: store) var theme
      let projection = $theme
      await observed { projection.error != nil }
      if round % 2 == 0 { projection.overwrite(with: .dark) } else { projection.reset() }
      #expect(projection.error == nil)
      try await projection.save()
      #expect(projection.error == nil)
    }
  }

  @Test func resetRemovesAnUnreadableValue() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    @Persisted(.theme, in: store) var theme
    theme = .dark
    try await $theme.save()
    try await keyspace.set([0], forKey: "theme")
    let projection = $theme
    await observed { projection.error != nil }
    #expect(theme == .dark, "the last value that could be read")
    await #expect(throws: StoreError.self) { try await projection.reload() }
    $theme.reset()
    #expect(theme == .light)
    try await $theme.save()
    #expect(try await keyspace.contains("theme") == false)
    theme = .sepia
    try await $theme.save()
    #expect($theme.error == nil)
  }

  /// Another writer may repair the value.
  @Test func repairedValueIsReadAgain() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    try await keyspace.set([0], forKey: "theme")
    let given = try await PersistedStore(keyspace)
    @Persisted(.theme, in: given) var theme
    let projection = $theme
    await observed { projection.error != nil }
    try await keyspace.set(Array(#""dark""#.utf8), forKey: "theme")
    await observed { projection.error == nil }
    #expect(theme == .dark)
  }

  @Test func twoTypesForTheSameKeyAreAnError() async throws {
    let store = PersistedStore.inMemory()
    @Persisted("size", in: store) var size = Size()
    size.width = 5
    @Persisted("size", in: store) var text = "small"
    @Persisted(PersistedKey("size", default: Size(), format: .json(version: 2)), in: store)
    var later
    #expect(text == "small")
    #expect($text.error?.code == .decodingFailed)
    #expect($text.error?.message.contains("'size'") == true)
    #expect($later.error?.code == .decodingFailed)
    text = "large"
    $text.overwrite(with: "huge")
    $text.reset()
    await #expect(throws: StoreError.self) { try await $text.save() }
    await #expect(throws: StoreError.self) { try await $text.reload() }
    try await $size.save()
    let stored = try #require(try await store.keyspace?.value(forKey: "size"))
    #expect(try JSONDecoder().decode(Size.self, from: Data(stored)) == Size(width: 5, height: 2))
  }

  /// Values that are no JSON objects have versions too, and earlier versions are migrated.
  @Test func versionsAreMigrated() async throws {
    let store = PersistedStore.inMemory()
    let keyspace = try #require(store.keyspace)
    try await keyspace.set(Array(#""12""#.utf8), forKey: "n")
    let format = ModelFormat<Int>.json(version: 2).migrating(from: 1, String.self) { Int($0) ?? 0 }
    let given = try await PersistedStore(keyspace)
    @Persisted(PersistedKey("n", default: 0, format: format), in: given) var n
    for await value in $n.values where value == 12 { break }
    n = 13
    try await $n.save()
    let stored = try await keyspace.value(forKey: "n")
    #expect(stored == Array(#"{"$version":2,"$value":13}"#.utf8))
    try await $n.reload()
    #expect(n == 13)
  }

  @Test(arguments: [
    [:], ["a": 1], ["$version": 7], ["$value": 5], ["$version": 1, "$value": 2, "b": 3],
  ])
  func dictionariesKeepTheirMembers(value: [String: Int]) async throws {
    for version in 1...2 {
      let store = PersistedStore.inMemory()
      let key = PersistedKey<[String: Int]>("d", default: [:], format: .json(version: version))
      @Persisted(key, in: store) var dictionary
      dictionary = value
      try await $dictionary.save()
      let stored = try #require(try await store.keyspace?.value(forKey: "d"))
      try await store.keyspace?.set(stored, forKey: "other")
      @Persisted(PersistedKey<[String: Int]>("other", default: [:], format: key.format), in: store)
      var other
      try await $other.reload()
      #expect(other == value, "version \(version)")
    }
  }

  @Test func aValueThatCannotBeEncodedIsKeptAndNamed() async throws {
    let store = PersistedStore.inMemory()
    @Persisted("ratio", in: store) var ratio = 1.0
    @Persisted("theme", in: store) var theme = Theme.light
    ratio = .nan
    theme = .dark
    let error = await #expect(throws: StoreError.self) { try await $ratio.save() }
    #expect(error?.code == .encodingFailed)
    #expect(error?.message.contains("'ratio'") == true)
    #expect(ratio.isNaN)
    try await $theme.save()
    #expect(try await store.keyspace?.value(forKey: "theme") == Array(#""dark""#.utf8))
    ratio = 0.5
    try await $ratio.save()
    #expect($ratio.error == nil)
  }

  @Test func oversizeKeyDoesNotPreventOtherSaves() async throws {
    let store = PersistedStore.inMemory()
    @Persisted(String(repeating: "x", count: 70_000), in: store) var tooLong = 1
    @Persisted("theme", in: store) var theme = Theme.light
    tooLong = 2
    theme = .dark
    let error = await #expect(throws: StoreError.self) { try await $tooLong.save() }
    #expect(error?.code == .keyTooLarge)
    #expect(tooLong == 2)
    try await $theme.save()
    #expect($theme.error == nil)
  }

  /// The user's choice stays, is reported as unsaved, and is saved when the disk has space again.
  @Test func valueIsSavedWhenAFullDiskHasSpaceAgain() async throws {
    let storage = MemoryStorage(capacityBytes: 2 << 20)
    let full = try Store(on: storage, at: "store", configuration: .init())
    let store = try await PersistedStore(try full.keyspace(named: "settings"))
    @Persisted("text", in: store) var text = ""
    text = "first"
    try await $text.save()
    var random = SeededGenerator(seed: 1)
    let filler = (0..<20_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    var count = 0
    while count < 1_000 {
      do { try await full.set(filler, forKey: Key("\(count)")) } catch { break }
      count += 1
    }
    #expect((1..<1_000).contains(count))
    let long = (0..<4_000).map { _ in String(random.next(), radix: 36) }.joined()
    text = long
    let error = await #expect(throws: StoreError.self) { try await $text.save() }
    #expect(error?.code == .noSpace)
    #expect($text.error?.code == .noSpace)
    #expect(text == long)
    for number in 0..<count { try await full.removeValue(forKey: Key("\(number)")) }
    _ = try await full.compact()
    try await $text.save()
    #expect($text.error == nil)
    try await $text.reload()
    #expect(text == long)
  }

  /// Returns a store on a storage that can fail its reads.
  private func faultyStore() async throws -> (Store, FaultStorage) {
    let storage = FaultStorage(MemoryStorage())
    var configuration = Store.Configuration()
    configuration.ioMode = .positional
    configuration.compaction = .manual
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await store.set([1], forKey: "first")
    return (store, storage)
  }

  /// Ends the following of the settings by a read error. Later reads succeed.
  private func failARead(
    of store: Store, on storage: FaultStorage, seenBy projection: PersistedProjection<Int>
  ) async throws {
    storage.setScript { event in
      event.operation == .read && event.file.hasSuffix(".segment") ? .fail(.ioError) : nil
    }
    try await store.set([1], forKey: "second")
    await observed { projection.error?.code == .io }
    storage.setScript(nil)
  }

  @Test func saveFollowsTheStoreAgainAfterAReadError() async throws {
    let (faulty, storage) = try await faultyStore()
    let store = try await PersistedStore(try faulty.keyspace(named: ""))
    @Persisted("n", in: store) var n = 0
    let projection = $n
    try await failARead(of: faulty, on: storage, seenBy: projection)
    n = 1
    try await projection.save()
    try await faulty.set(Array("7".utf8), forKey: "n")
    for await value in projection.values where value == 7 { break }
    #expect(projection.error == nil)
    try await faulty.close()
  }

  @Test func saveInTheBackgroundFollowsTheStoreAgainAfterAReadError() async throws {
    let (faulty, storage) = try await faultyStore()
    let store = try await PersistedStore(try faulty.keyspace(named: ""))
    @Persisted("n", in: store) var n = 0
    let projection = $n
    try await failARead(of: faulty, on: storage, seenBy: projection)
    n = 1
    for try await stored in faulty.values(forKey: "n") where stored != nil { break }
    try await faulty.set(Array("7".utf8), forKey: "n")
    for await value in projection.values where value == 7 { break }
    try await faulty.close()
  }

  /// The read error is no error of the save.
  @Test(arguments: [false, true])
  func saveOfNothingFollowsTheStoreAgainAfterAReadError(ofTheStore: Bool) async throws {
    let (faulty, storage) = try await faultyStore()
    let store = try await PersistedStore(try faulty.keyspace(named: ""))
    @Persisted("n", in: store) var n = 0
    let projection = $n
    try await failARead(of: faulty, on: storage, seenBy: projection)
    if ofTheStore { try await store.save() } else { try await projection.save() }
    try await faulty.set(Array("7".utf8), forKey: "n")
    for await value in projection.values where value == 7 { break }
    #expect(n == 7)
    #expect(projection.error == nil)
    try await faulty.close()
  }

  /// The key was never stored, so its absence is no newer value.
  @Test func followingAgainKeepsAValueThatCouldNotBeSaved() async throws {
    let (faulty, storage) = try await faultyStore()
    let store = try await PersistedStore(try faulty.keyspace(named: ""))
    @Persisted("n", in: store) var n = 0
    @Persisted("ratio", in: store) var ratio = 1.0
    let projection = $n
    ratio = .nan
    await #expect(throws: StoreError.self) { try await $ratio.save() }
    try await failARead(of: faulty, on: storage, seenBy: projection)
    n = 1
    try await projection.save()
    try await faulty.set(Array("7".utf8), forKey: "n")
    for await value in projection.values where value == 7 { break }
    #expect(ratio.isNaN)
    #expect($ratio.error?.code == .encodingFailed)
    try await faulty.close()
  }

  /// Regression: the default replaced a value that could not be saved, when the record that the
  /// store had of the setting was deleted after its end.
  @Test func endOfTheStoredRecordKeepsAValueThatCouldNotBeSaved() async throws {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    // The test deletes the record itself.
    configuration.reapInterval = .seconds(1_000_000)
    let memory = Store.inMemory(configuration: configuration)
    let keyspace = try memory.keyspace(named: "settings", defaultLifetime: .seconds(3600))
    let store = try await PersistedStore(keyspace)
    @Persisted("ratio", in: store) var ratio = 1.0
    @Persisted("n", in: store) var n = 0
    ratio = 0.5
    try await $ratio.save()
    ratio = .nan
    await #expect(throws: StoreError.self) { try await $ratio.save() }
    clock.advance(by: .seconds(10_000))
    #expect(try await memory.removeExpired() == 1)
    try await keyspace.set(Array("7".utf8), forKey: "n")
    for await value in $n.values where value == 7 { break }
    #expect(n == 7)
    #expect(ratio.isNaN)
    #expect($ratio.error?.code == .encodingFailed)
    try await memory.close()
  }

  @Test func reloadDiscardsAValueThatCouldNotBeSaved() async throws {
    let store = PersistedStore.inMemory()
    @Persisted("ratio", in: store) var ratio = 1.0
    ratio = 2
    try await $ratio.save()
    ratio = .infinity
    await #expect(throws: StoreError.self) { try await $ratio.save() }
    try await $ratio.reload()
    #expect(ratio == 2)
    #expect($ratio.error == nil)
  }

  /// Regression: all settings of a batch had its last number, so the records of the others seemed
  /// to be older than their values. A reload kept the value and its error, and the next save wrote
  /// it.
  @Test func reloadDiscardsAValueThatWasSavedWithOthers() async throws {
    let memory = Store.inMemory()
    let keyspace = try memory.keyspace(named: "settings")
    let store = try await PersistedStore(keyspace)
    @Persisted("one", in: store) var one = 1.0
    @Persisted("two", in: store) var two = 1.0
    try await memory.suspend()
    one = 2
    two = 3
    await #expect(throws: StoreError.self) { try await store.save() }
    try await memory.resume()
    // Both are kept, so they are one batch.
    try await store.save()
    #expect(try await memory.lastSequence() == SequenceNumber(rawValue: 2))
    one = .infinity
    two = .infinity
    for projection in [$one, $two] {
      await #expect(throws: StoreError.self) { try await projection.save() }
    }
    for projection in [$one, $two] {
      try await projection.reload()
      #expect(projection.error == nil)
    }
    #expect(one == 2)
    #expect(two == 3)
    try await store.save()
    #expect($one.error == nil)
    #expect($two.error == nil)
  }

  @Test func closedStoreIsAnErrorForSavesAndNotForReads() async throws {
    let store = PersistedStore.inMemory()
    @Persisted("theme", in: store) var theme = Theme.light
    theme = .dark
    try await store.close()
    #expect(theme == .dark)
    theme = .sepia
    let error = await #expect(throws: StoreError.self) { try await $theme.save() }
    #expect(error?.code == .closed)
    #expect(theme == .sepia)
    await #expect(throws: StoreError.self) { try await $theme.reload() }
  }
}
