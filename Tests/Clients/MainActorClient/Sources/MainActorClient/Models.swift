import Foundation
import Moraine
import Observation

// Models cross actors, so they are declared `nonisolated`. Everything else here belongs to the main
// actor.
nonisolated struct User: Codable, Identifiable, Hashable, Sendable {
  let id: UUID
  var name: String
}

nonisolated enum Theme: String, Codable, Sendable { case light, dark }

nonisolated extension PersistedKey where Value == Theme {
  static var theme: Self { Self("theme", default: .light) }
}

/// Preferences of the whole program.
@Observable
final class Preferences {
  @ObservationIgnored @Persisted(.theme) var theme
  @ObservationIgnored @Persisted("launches") var launches = 0
}

/// The view model of a list of users.
@Observable
final class UserList {
  let live: LiveModels<User>
  private(set) var problem: String?
  private let repository: LocalRepository<User>

  init(_ repository: LocalRepository<User>) {
    self.repository = repository
    live = LiveModels(repository, sortedBy: { $0.name < $1.name })
  }

  var names: [String] { live.models.map(\.name) }

  func add(_ name: String) async {
    do { try await repository.save(User(id: UUID(), name: name)) } catch {
      problem = error.message
    }
  }

  func removeAll(named name: String) async throws(StoreError) {
    try await repository.delete(contentsOf: live.models.filter { $0.name == name }.map(\.id))
  }
}
