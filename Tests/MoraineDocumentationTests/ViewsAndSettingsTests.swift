import Foundation
import Moraine
import Observation
import Testing

#if canImport(SwiftUI)
  import SwiftUI
#endif

extension PersistedKey where Value == Theme {
  static var theme: Self { Self("theme", default: .light) }
}

struct Appearance {
  @Persisted(.theme) var theme
  // Or with name and default here.
  @Persisted("appearance.launches") var launches = 0
}

@Observable final class Preferences {
  @ObservationIgnored @Persisted(.theme) var theme
}

@Suite struct ViewsAndSettingsTests {
  init() { settingsAreInMemory }

  @Test @MainActor func models() async throws {
    let ground = try Ground()
    let folder = ground.folder
    let users = try LocalRepository<User>(directory: folder, filename: "users")
    try await users.save(User(id: 7, name: "Ada"))

    // @Observable, on the main actor.
    let live = LiveModels(users, sortedBy: { $0.name < $1.name })

    var reminded: [Int] = []
    func remind(_ user: User) { reminded.append(user.id) }
    for try await user in users.models where user.isOverdue { remind(user) }
    #expect(reminded == [7])
    while live.models.isEmpty { await Task.yield() }
    #expect(live.models.first?.name == "Ada")
    try await users.keyspace.store.close()
  }

  @Test func aSettingOnTheSpot() {
    // A setting, which is there in the next run.
    @Persisted("theme") var theme = Theme.light
    #expect($theme.error == nil)
  }

  @Test func settings() async throws {
    let appearance = Appearance()
    appearance.theme = .light
    let follower = Task { await Self.follow(appearance) }
    appearance.theme = .dark
    try await appearance.$theme.save()  // durable now
    // No other task changes the value in between.
    appearance.$launches.withLock { $0 += 1 }
    #expect(await follower.value.last == .dark)
    #expect(Preferences().theme == .dark)
  }

  private static func follow(_ appearance: Appearance) async -> [Theme] {
    var seen: [Theme] = []
    func apply(_ theme: Theme) {
      seen.append(theme)
      if theme == .dark { withUnsafeCurrentTask { $0?.cancel() } }
    }
    for await theme in appearance.$theme.values { apply(theme) }
    return seen
  }

  @Test func otherPlaces() async throws {
    @Persisted(.theme, in: .inMemory()) var theme
    theme = .dark
    #expect(theme == .dark)
    let store = Store.inMemory()
    // In a store that you have.
    let shared = try await PersistedStore(store.keyspace(named: "settings"))
    #expect(shared.keyspace?.name == "settings")
  }

  /// The default store is chosen once in a process.
  @Test func anotherDefault() async {
    await #expect(processExitsWith: .success) {
      let ground = try Ground()
      let container = ground.folder
      try PersistedStore.setDefault(PersistedStore(directory: container))
      @Persisted("theme") var theme = Theme.light
      theme = .dark
      try await $theme.save()
      #expect(FileManager.default.fileExists(atPath: container.path + "/settings.moraine"))
    }
  }
}

#if canImport(SwiftUI)
  // Compiled where SwiftUI exists; never run.
  struct UserList: View {
    @State private var users: LiveModels<User>

    init(_ repository: LocalRepository<User>) {
      users = LiveModels(repository, where: { !$0.isHidden }, sortedBy: { $0.name < $1.name })
    }

    var body: some View {
      switch users.phase {
      case .loading where users.models.isEmpty: ProgressView()
      case .failed(let error): ContentUnavailableView(error.message, systemImage: "externaldrive")
      default: List(users.models) { Text($0.name) }
      }
    }
  }

  struct Sounds: View {
    @Persisted("sound") private var sound = true
    var body: some View { Toggle("Sound", isOn: $sound.binding) }
  }
#endif
