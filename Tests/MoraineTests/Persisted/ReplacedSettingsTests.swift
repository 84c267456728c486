import Foundation
import Moraine
import MoraineEngine
import SystemPackage
import Testing

/// Another store is in the place of the settings' store.
@Suite(.timeLimit(.minutes(10))) struct ReplacedSettingsTests {
  /// The sequence numbers of the new store are lower than those that were seen; its values are new
  /// nevertheless.
  @Test func reloadFollowsTheReplacementStore() async throws {
    let folder = try Folder()
    let path = FilePath(folder.url.appendingPathComponent("settings.moraine").path)
    let settings = try PersistedStore(directory: folder.url)
    @Persisted(.theme, in: settings) var theme
    for number in 0..<30 {
      theme = number % 2 == 0 ? .light : .dark
      try await $theme.save()
    }
    #expect(theme == .dark)
    try await settings.close()
    try FileManager.default.removeItem(atPath: path.string)
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    let other = try await Store.open(at: path, configuration: configuration)
    try await other.set(Array(#""sepia""#.utf8), forKey: "theme")
    try await $theme.reload()
    #expect(theme == .sepia)
    @Persisted("marker", in: settings) var marker = 0
    try await other.set(Array(#""light""#.utf8), forKey: "theme")
    try await other.set(Array("1".utf8), forKey: "marker")
    for await value in $marker.values where value == 1 { break }
    #expect(theme == .light)
    theme = .dark
    try await $theme.save()
    #expect(try await other.value(forKey: "theme") == Array(#""dark""#.utf8))
    try await other.close()
    try await settings.close()
  }
}
