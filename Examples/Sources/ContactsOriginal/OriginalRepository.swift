import Foundation

/// The repository that everybody copies: a dictionary in memory, and one JSON file of all of it,
/// which is written anew, atomically, at every save.
///
/// It stands here as it is found, so that the port has something to be compared with. What is wrong
/// with it, and is not in the port:
/// - Memory changes before the file does: what could not be saved looks as if it were.
/// - A file that cannot be read is an empty one, and the next save writes over it.
/// - Two for one file each write what they have in memory: the last one wins, with everything.
/// - One save costs as much as all that was ever saved.
actor LocalRepository<T: Codable & Identifiable> {
  private var cache: [T.ID: T]
  private let fileURL: URL

  init(directory: URL, filename: String = "data") {
    fileURL = directory.appendingPathComponent(filename + ".json")
    // Nobody else has the actor yet, so this needs no `await`.
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
