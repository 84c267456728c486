import Foundation
import Moraine
import MoraineEngine
import SystemPackage
import Testing

/// A reader that follows a store is notified when its files are deleted, moved or replaced.
@Suite(.timeLimit(.minutes(10))) struct ReplacedStoreTests {
  enum Way: CaseIterable, Sendable {
    case deleted, moved, replaced, manifestDeleted
  }

  private func replace(_ name: String, in folder: URL, _ way: Way) async throws {
    let manager = FileManager.default
    let place = folder.appendingPathComponent(name)
    switch way {
    case .deleted: try manager.removeItem(at: place)
    case .moved: try manager.moveItem(at: place, to: folder.appendingPathComponent("moved"))
    case .replaced:
      let other = folder.appendingPathComponent("other")
      try await withStore(at: FilePath(other.path)) { store in
        try await store.set(Array(#""sepia""#.utf8), forKey: "theme")
      }
      try manager.moveItem(at: place, to: folder.appendingPathComponent("moved"))
      try manager.moveItem(at: other, to: place)
    case .manifestDeleted: try manager.removeItem(at: place.appendingPathComponent("MANIFEST"))
    }
  }

  @Test(arguments: [Way.deleted, .moved, .replaced])
  func settingsReportAReplacementAndReloadContinues(way: Way) async throws {
    let folder = try Folder()
    let store = try PersistedStore(directory: folder.url)
    @Persisted(.theme, in: store) var theme
    theme = .dark
    try await $theme.save()
    let projection = $theme
    var values = projection.values.makeAsyncIterator()
    #expect(await values.next() == .dark)
    try await replace("settings.moraine", in: folder.url, way)
    #expect(await values.next() == .dark, "the value comes once more, with an error")
    #expect(projection.error?.code == .storeReplaced)
    theme = .light
    await #expect(throws: StoreError.self) { try await projection.save() }
    #expect(theme == .light)
    try await projection.reload()
    #expect(projection.error == nil)
    #expect(theme == (way == .replaced ? .sepia : .light))
    theme = .dark
    try await projection.save()
    let named = try PersistedStore(directory: folder.url)
    #expect(Persisted(.theme, in: named).wrappedValue == .dark)
    try await named.close()
    let path = FilePath(folder.url.appendingPathComponent("settings.moraine").path)
    try await withStore(at: path) { store in
      let theme = try await store.value(forKey: "theme")
      #expect(theme == Array(#""dark""#.utf8))
    }
  }

  /// Regression: in a store that is not shared, a set of the value that the store had ended the
  /// error, and `save` returned. So did the removal of a setting that the store did not have.
  @Test func saveOfNothingIntoAReplacedStoreThrows() async throws {
    let folder = try Folder()
    let store = try PersistedStore(directory: folder.url, configuration: Store.Configuration())
    @Persisted(.theme, in: store) var theme
    @Persisted("name", in: store) var name = "none"
    theme = .dark
    try await $theme.save()
    let (projection, other) = ($theme, $name)
    var values = projection.values.makeAsyncIterator()
    #expect(await values.next() == .dark)
    try await replace("settings.moraine", in: folder.url, .moved)
    #expect(await values.next() == .dark, "the value comes once more, with an error")
    #expect(projection.error?.code == .storeReplaced)
    theme = .dark
    let setting = await #expect(throws: StoreError.self) { try await projection.save() }
    #expect(setting?.code == .storeReplaced)
    #expect(projection.error?.code == .storeReplaced)
    other.reset()
    let removing = await #expect(throws: StoreError.self) { try await other.save() }
    #expect(removing?.code == .storeReplaced)
    #expect(other.error?.code == .storeReplaced)
    #expect(name == "none")
    try await projection.reload()
    #expect(theme == .light)
    theme = .sepia
    try await projection.save()
    #expect(other.error == nil)
    try await store.close()
  }

  @Test func settingsReportAReplacementDuringASuspensionAndReloadContinues() async throws {
    let folder = try Folder()
    let settings = try PersistedStore(directory: folder.url)
    @Persisted(.theme, in: settings) var theme
    theme = .dark
    try await $theme.save()
    let projection = $theme
    var values = projection.values.makeAsyncIterator()
    #expect(await values.next() == .dark)
    let store = try #require(settings.keyspace?.store)
    try await store.suspend()
    try await replace("settings.moraine", in: folder.url, .replaced)
    let error = await #expect(throws: StoreError.self) { try await store.resume() }
    #expect(error?.code == .storeReplaced)
    #expect(await values.next() == .dark, "the value comes once more, with an error")
    #expect(projection.error?.code == .storeReplaced)
    try await projection.reload()
    #expect(projection.error == nil)
    #expect(theme == .sepia)
    try await settings.close()
  }

  @Test(arguments: [Way.deleted, .moved]) @MainActor
  func repositoriesReportAReplacementAndOpeningByNameContinues(way: Way) async throws {
    let folder = try Folder()
    let notes = try LocalRepository<Note>(directory: folder.url)
    try await notes.save(Note(id: 1, text: "old"))
    let live = LiveModels(notes)
    await observed { live.models.count == 1 }
    let changes = notes.changes
    let listening = Task { for try await _ in changes {} }
    try await replace("data.moraine", in: folder.url, way)
    let error = await #expect(throws: StoreError.self) { try await listening.value }
    #expect(error?.code == .storeReplaced)
    await observed { if case .failed = live.phase { true } else { false } }
    if case .failed(let error) = live.phase { #expect(error.code == .storeReplaced) }
    let new = try LocalRepository<Note>(directory: folder.url)
    #expect(try await new.loadAll() == [])
    try await new.save(Note(id: 2, text: "new"))
    let saving = await #expect(throws: StoreError.self) {
      try await notes.save(Note(id: 3, text: "lost"))
    }
    #expect(saving?.code == .storeReplaced)
    #expect(try await new.loadAll().map(\.id) == [2])
    try await new.keyspace.store.close()
  }
}
