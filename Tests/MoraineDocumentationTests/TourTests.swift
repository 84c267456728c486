import Foundation
import Moraine
import MoraineArchive
import SystemPackage
import Testing

struct Chore: Codable, Identifiable, Sendable {
  var id: Int
  var title: String
  var day: Int
}

/// The program of the README's tour, with other paths.
@Suite struct TourTests {
  /// Compiled only: the program writes into its working directory. `Scripts/check-readme tour` runs
  /// it.
  private func tour() async throws {
    // One store for everything. The repository keeps an index of the days.
    let store = try Store(at: "tour.moraine")
    let chores = try LocalRepository<Chore>(
      in: store, named: "chores", indexes: [.index("day", on: \.day)])
    let list = (1...100).map { Chore(id: $0, title: "chore \($0)", day: $0 % 30) }
    try await chores.save(contentsOf: list)
    let soon = try await chores.query(where: \.day, in: 1..<3).sorted(by: \.title).limit(3).fetch()
    print("soon:", soon.map(\.title))

    // Keys in order: a range, from its end.
    let visits = try store.orderedKeyspace(named: "visits")
    for day in 24...28 { try await visits.set([UInt8(day)], forKey: Key("2026-11-\(day)")) }
    let days: ClosedRange<Key> = "2026-11-25"..."2026-11-27"
    let page = try await visits.entries(in: days, order: .descending, limit: 2)
    print("visits:", page.entries.map(\.key))

    // Both change, or neither. The body may await; after a conflict it runs again.
    try await store.transaction { transaction in
      guard let last = try transaction.last(in: .all, of: visits) else { return }
      try transaction.removeValue(forKey: last.key, in: visits)
      try transaction.set(last.value, forKey: "last visit")
    }
    print("last visit:", try await store.value(forKey: "last visit") ?? [])

    // An entry that ends by itself: this one has ended in 2023 already.
    try await store.set([7], forKey: "session", expiring: .at(milliseconds: 1_700_000_000_000))
    print("session:", try await store.value(forKey: "session") ?? [])

    // A continuous copy, and a state of the past.
    let objects = DirectoryObjectStore("archive")
    try await objects.createRoot()
    let archive = try await Archive.open(objects, at: .root, createIfMissingFor: store)
    let writer = try await archive.attach(store)
    let number = try await writer.flush()
    try await chores.deleteAll()
    try await writer.detach()
    try await store.close()
    try await archive.restore(to: "restored.moraine", at: .sequence(number))
    let restored = try Store(at: "restored.moraine")
    print("restored:", try await restored.keyspace(named: "chores").count(), "chores")
    try await restored.close()
  }
}
