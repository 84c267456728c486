import Foundation
import Moraine
import Observation

@main
struct Main {
  static func main() async throws {
    let folder = URL(fileURLWithPath: NSTemporaryDirectory())
      .appendingPathComponent("moraine-client-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer {
      do { try FileManager.default.removeItem(at: folder) } catch { print(error) }
    }
    try PersistedStore.setDefault(PersistedStore(directory: folder))
    try await users(in: folder)
    try await preferences()
    print("ok")
  }

  private static func users(in folder: URL) async throws {
    let repository = try LocalRepository<User>(directory: folder, filename: "users")
    let list = UserList(repository)
    for name in ["Grace", "Ada", "Barbara"] { await list.add(name) }
    await observed { list.names == ["Ada", "Barbara", "Grace"] }
    try await list.removeAll(named: "Barbara")
    await observed { list.names == ["Ada", "Grace"] }
    var streamed: Set<String> = []
    for try await user in repository.models { streamed.insert(user.name) }
    check(streamed == ["Ada", "Grace"], "\(streamed)")
    var changes = repository.changes.makeAsyncIterator()
    let user = User(id: UUID(), name: "Margaret")
    try await repository.save(user)
    if case .saved(user) = try await changes.next() {} else { check(false, "no change") }
    check(try await repository.find(by: user.id) == user, "not found")
    check(list.problem == nil, list.problem ?? "")
    try await repository.keyspace.store.close()
  }

  private static func preferences() async throws {
    let one = Preferences()
    let other = Preferences()
    one.theme = .dark
    other.launches += 1
    one.$launches.withLock { $0 += 1 }
    check(other.theme == .dark && one.launches == 2, "two models disagree")
    let seen = Task { await observed { other.theme == .light } }
    one.theme = .light
    await seen.value
    var values = one.$launches.values.makeAsyncIterator()
    check(await values.next() == 2, "values")
    try await one.$launches.save()
    check(one.$launches.error == nil, "\(one.$launches.error as Any)")
    try await PersistedStore.default.close()
  }

  private static func check(_ condition: Bool, _ what: String) {
    if !condition { fatalError("wrong: \(what)") }
  }

  /// Waits until the condition holds.
  private static func observed(_ condition: () -> Bool) async {
    while true {
      let (changes, continuation) = AsyncStream<Void>.makeStream()
      let holds = withObservationTracking(condition) { continuation.finish() }
      if holds { return }
      for await _ in changes {}
    }
  }
}
