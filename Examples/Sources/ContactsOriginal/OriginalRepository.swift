import Foundation

/// The actor-repository pattern: a dictionary in memory, and one JSON file of all models, which
/// every save replaces atomically.
///
/// This file is the pattern as it is found, for comparison with the port. The pattern has these
/// faults, which the port does not have:
/// - Memory changes before the file: a failed save looks like a success.
/// - A file that cannot be read counts as empty, and the next save overwrites it.
/// - Two repositories of one file each write their own memory: the last one replaces all changes of
///   the other.
/// - One save costs as much as saving all models.
actor LocalRepository<T: Codable & Identifiable> {
  private var cache: [T.ID: T]
  private let fileURL: URL

  init(directory: URL, filename: String = "data") {
    fileURL = directory.appendingPathComponent(filename + ".json")
    // No other task has the actor yet, so this needs no `await`.
    cache = Self.readFile(at: fileURL)
  }

  func save(_ item: T) throws {
    cache[item.id] = item
    try writeFile()
  }

  func delete(_ id: T.ID) throws {
    cache[id] = nil
    try writeFile()
  }

  func find(by id: T.ID) -> T? { cache[id] }

  func loadAll() -> [T] { Array(cache.values) }

  private func writeFile() throws {
    let data = try JSONEncoder().encode(Array(cache.values))
    try data.write(to: fileURL, options: .atomic)
  }

  private static func readFile(at url: URL) -> [T.ID: T] {
    guard let data = try? Data(contentsOf: url),
      let items = try? JSONDecoder().decode([T].self, from: data)
    else { return [:] }
    return Dictionary(uniqueKeysWithValues: items.map { ($0.id, $0) })
  }
}
