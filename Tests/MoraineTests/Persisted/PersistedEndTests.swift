import Foundation
import Moraine
import MoraineTesting
import Testing

private struct Window: Codable, Equatable, Sendable {
  var left = 0
  var top = 0
  var width = 640
  var height = 480
  var isFull = false
}

private struct Account: Codable, Equatable, Sendable {
  var id: Int
  var plan: String

  static func == (one: Account, other: Account) -> Bool { one.id == other.id }
}

/// Sets a value of the default store when that is closed. The last property of the store ends
/// here.
private func setAfterClosing() async throws {
  @Persisted("theme") var theme = "light"
  theme = "dim"
  try await $theme.save()
  try await PersistedStore.default.keyspace?.store.close()
  theme = "dark"
  let error = await #expect(throws: StoreError.self) { try await $theme.save() }
  #expect(error?.code == .closed)
}

/// What a set writes, and the sets that are not saved when the process ends.
@Suite(.timeLimit(.minutes(10))) struct PersistedEndTests {
  @Test func equalValueIsNotWrittenAgain() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "settings")
    let settings = try await PersistedStore(keyspace)
    @Persisted("count", in: settings) var count = 3
    @Persisted("window", in: settings) var window = Window()
    // The default is stored when it is set: the default of a later program may be another.
    count = 3
    window = Window(left: 5)
    try await settings.save()
    #expect(try await keyspace.value(forKey: "count") == Array("3".utf8))
    // The members of an object may come in any order.
    let reordered = #"{"isFull":false,"top":0,"height":480,"left":5,"width":640}"#
    try await keyspace.set(Array(reordered.utf8), forKey: "window")
    try await $window.reload()
    let before = try await store.lastSequence()
    for _ in 0..<3 {
      count = 3
      window = Window(left: 5)
      window.left = 5
      try await settings.save()
    }
    #expect(try await store.lastSequence() == before)
    #expect($count.error == nil && $window.error == nil)
    window.left = 6
    count = 4
    try await settings.save()
    #expect(try await store.lastSequence().rawValue == before.rawValue + 2)
    #expect(try await keyspace.value(forKey: "count") == Array("4".utf8))
    // A value that another writer has replaced is written.
    try await keyspace.set(Array("9".utf8), forKey: "count")
    count = 4
    try await settings.save()
    #expect(try await keyspace.value(forKey: "count") == Array("4".utf8))
    $count.reset()
    try await settings.save()
    #expect(try await keyspace.value(forKey: "count") == nil)
  }

  @Test func valuesThatATypeCallsEqualAreSaved() async throws {
    let store = Store.inMemory()
    let keyspace = try store.keyspace(named: "settings")
    let settings = try await PersistedStore(keyspace)
    @Persisted("account", in: settings) var account = Account(id: 1, plan: "a")
    account = Account(id: 1, plan: "b")
    try await settings.save()
    account = Account(id: 1, plan: "c")
    try await settings.save()
    let stored = try #require(try await keyspace.value(forKey: "account"))
    #expect(try JSONDecoder().decode(Account.self, from: Data(stored)).plan == "c")
  }

  @Test func equalValueRenewsAnEntryThatExpires() async throws {
    let clock = ManualClock(startingAt: 1_700_000_000_000)
    var configuration = Store.Configuration()
    configuration.clock = clock
    let store = Store.inMemory(configuration: configuration)
    let keyspace = try store.keyspace(named: "settings", defaultLifetime: .seconds(3600))
    let settings = try await PersistedStore(keyspace)
    @Persisted("token", in: settings) var token = ""
    token = "t"
    try await settings.save()
    clock.advance(by: .seconds(3000))
    token = "t"
    try await settings.save()
    clock.advance(by: .seconds(3000))
    #expect(try await keyspace.value(forKey: "token") == Array("\"t\"".utf8))
  }

  @Test func setThatIsUnsavedAtTheEndOfTheProcessIsSaved() async throws {
    let folder = try Folder()
    let path = folder.url.path
    await #expect(processExitsWith: .success) { [path = path as String] in
      let settings = try PersistedStore(directory: URL(fileURLWithPath: path))
      @Persisted("number", in: settings) var number = 0
      @Persisted("list", in: settings) var list: [Int] = []
      for next in 1...500 {
        number = next
        list.append(next)
      }
      exit(0)
    }
    let store = try Store(at: folder.url.appendingPathComponent("settings.moraine"))
    let number = try await store.value(forKey: "number")
    #expect(number.map { String(decoding: $0, as: UTF8.self) } == "500")
    let list = try await store.value(forKey: "list").map { Data($0) } ?? Data()
    #expect(try JSONDecoder().decode([Int].self, from: list) == Array(1...500))
    try await store.close()
  }

  @Test func processSaysWhichSetsItCouldNotSave() async throws {
    let result = try await #require(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) {
      let store = Store.inMemory()
      let settings = try await PersistedStore(try store.keyspace(named: "settings"))
      @Persisted("theme", in: settings) var theme = "light"
      @Persisted("kept", in: settings) var kept = 0
      kept = 1
      try await settings.save()
      try await store.close()
      theme = "dark"
      withExtendedLifetime(settings) { exit(0) }
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("not saved in keyspace 'settings': theme"), "\(text)")
    #expect(text.contains("close"), "\(text)")
  }

  /// Regression: the next property of the default store opened it again, and the settings of the
  /// closed one were gone without a report.
  @Test func processSaysWhichSetsWereLeftWhenTheStoreWasOpenedAgain() async throws {
    let folder = try Folder()
    let path = folder.url.path
    let result = try await #require(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) { [path = path as String] in
      setenv("MORAINE_SETTINGS", path, 1)
      try await setAfterClosing()
      @Persisted("other") var other = 0
      other = 1
      try await $other.save()
      exit(0)
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("not saved in"), "\(text)")
    #expect(text.contains(": theme"), "\(text)")
    withExtendedLifetime(folder) {}
  }

  @Test func processSaysWhichSetsCameAfterItClosedItsSettings() async throws {
    let result = try await #require(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) {
      let store = Store.inMemory()
      let settings = try await PersistedStore(try store.keyspace(named: "settings"))
      @Persisted("theme", in: settings) var theme = "light"
      theme = "dim"
      try await settings.close()
      theme = "dark"
      withExtendedLifetime(settings) { exit(0) }
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("not saved in keyspace 'settings': theme"), "\(text)")
  }
}
