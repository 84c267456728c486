import Foundation
import Moraine
import SystemPackage
import Testing

private func setVariable(_ value: String) { setenv("MORAINE_SETTINGS", value, 1) }

/// The store of all values that name no store. Each test has a process of its own, because a
/// process has one default store.
@Suite(.timeLimit(.minutes(10))) struct DefaultStoreTests {
  @Test func environmentNamesTheDefaultStore() async {
    await #expect(processExitsWith: .success) {
      let folder = try Folder()
      setVariable(folder.url.path)
      @Persisted("theme") var theme = Theme.light
      theme = .dark
      try await $theme.save()
      try await PersistedStore.default.close()
      let path = folder.url.appendingPathComponent("settings.moraine").path
      try await withStore(at: .init(path)) { store in
        let stored = try await store.value(forKey: "theme")
        #expect(stored == Array(#""dark""#.utf8))
      }
    }
  }

  @Test func programChoosesTheDefaultStoreOnce() async {
    await #expect(processExitsWith: .success) {
      setVariable("memory")
      let store = PersistedStore.inMemory()
      try PersistedStore.setDefault(store)
      try PersistedStore.setDefault(store)
      @Persisted("theme") var theme = Theme.light
      theme = .dark
      #expect(Persisted(.theme, in: store).wrappedValue == .dark)
      #expect(throws: StoreError.self) {
        try PersistedStore.setDefault(.inMemory())
      }
    }
  }

  /// Another process has the store open: nothing is lost, nothing is set, and opening can be
  /// repeated.
  @Test func defaultStoreThatCannotBeOpenedReportsTheError() async {
    await #expect(processExitsWith: .success) {
      let folder = try Folder()
      setVariable(folder.url.path)
      let path = folder.url.appendingPathComponent("settings.moraine").path
      let other = try Store(at: .init(path))
      try await other.set(Array(#""sepia""#.utf8), forKey: "theme")
      @Persisted("theme") var theme = Theme.light
      #expect(theme == .light)
      #expect($theme.error?.code == .locked)
      theme = .dark
      $theme.overwrite(with: .dark)
      #expect(theme == .light)
      await #expect(throws: StoreError.self) { try await $theme.save() }
      await #expect(throws: StoreError.self) { try await $theme.reload() }
      try await other.close()
      try await $theme.reload()
      #expect(theme == .sepia)
      #expect($theme.error == nil)
      theme = .dark
      try await $theme.save()
      let named = try PersistedStore(directory: folder.url)
      #expect(Persisted(.theme, in: named).wrappedValue == .dark, "both are the same store")
    }
  }

  @Test func aDefaultStoreThatWasClosedIsOpenedAgain() async {
    await #expect(processExitsWith: .success) {
      let folder = try Folder()
      setVariable(folder.url.path)
      for round in 0..<3 {
        @Persisted("round") var number = 0
        #expect(number == round)
        number += 1
        try await PersistedStore.default.save()
        try await PersistedStore.default.keyspace?.store.close()
      }
    }
  }

  @Test func defaultStoreHasAFolderPerProgram() throws {
    let folder = try PersistedStore.defaultDirectory
    let name = ProcessInfo.processInfo.processName
    #expect(folder.lastPathComponent == (Bundle.main.bundleIdentifier ?? name))
  }
}
