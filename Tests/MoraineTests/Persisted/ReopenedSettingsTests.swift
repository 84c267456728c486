import Foundation
import MoraineEngine
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

@testable import Moraine

/// Several tasks reload settings of a store that was closed.
@Suite(.timeLimit(.minutes(10))) struct ReopenedSettingsTests {
  /// Regression: each reload opened the store, and the last one took settings that it had read
  /// before the first one was used.
  @Test func reloadsAtOneTimeOpenTheStoreOnce() async throws {
    let folder = try Folder()
    let path = FilePath(folder.url.appendingPathComponent("settings.moraine").path)
    let store = try Store(at: path, configuration: PersistedStore.configuration)
    let keyspace = Keyspace(store)
    let contents = try await keyspace.contents()
    let calls = Mutex(0)
    let gate = Gate()
    let source: PersistedSpace.Source = { () throws(StoreError) in
      let number = calls.withLock { count -> Int in
        count += 1
        return count
      }
      if number == 1 { gate.pass() }
      return (path, PersistedStore.request(nil))
    }
    let space = PersistedSpace(keyspace, contents, place: "settings", source: source)
    let settings = PersistedStore(space)
    let launches = Persisted(wrappedValue: 0, "launches", in: settings)
    launches.wrappedValue = 1
    try await settings.save()
    try await settings.close()
    let first = Task { try await launches.projectedValue.reload() }
    await gate.arrival()
    let second = Task { try await launches.projectedValue.reload() }
    while true {
      let isWaiting = space.state.withLock { !$0.reloaders.isEmpty }
      let callCount = calls.withLock { $0 }
      if isWaiting || callCount > 1 { break }
      await Task.yield()
    }
    gate.open()
    try await first.value
    try await second.value
    #expect(calls.withLock { $0 } == 1)
    #expect(launches.wrappedValue == 1)
    try await settings.close()
  }

  @Test func noIncrementIsLostWhenTwoTasksReload() async throws {
    let folder = try Folder()
    let settings = try PersistedStore(directory: folder.url)
    let launches = Persisted(wrappedValue: 0, "launches", in: settings)
    for round in 1...20 {
      try await settings.close()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<2 {
          group.addTask {
            let projection = launches.projectedValue
            try await projection.reload()
            projection.withLock { $0 += 1 }
            try await projection.save()
          }
        }
        try await group.waitForAll()
      }
      #expect(launches.wrappedValue == 2 * round)
    }
    try await settings.close()
  }
}
