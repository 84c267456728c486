import Foundation

/// The actor-repository pattern: a dictionary, and one JSON file of all models, which every save
/// replaces atomically.
package actor CopiedPattern<Model: Codable & Identifiable & Sendable>
where Model.ID: Hashable & Codable {
  private var cache: [Model.ID: Model] = [:]
  private let url: URL

  /// Reads the file if it exists.
  package init(url: URL) throws {
    self.url = url
    guard FileManager.default.fileExists(atPath: url.path) else { return }
    let models = try JSONDecoder().decode([Model].self, from: Data(contentsOf: url))
    cache = Dictionary(models.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
  }

  package func save(_ model: Model) throws {
    cache[model.id] = model
    try persist()
  }

  /// Saves all models with one write. The pattern has no such call: it would write the file once
  /// for each model.
  package func save(contentsOf models: [Model]) throws {
    for model in models { cache[model.id] = model }
    try persist()
  }

  package func find(by id: Model.ID) -> Model? { cache[id] }

  package func loadAll() -> [Model] { Array(cache.values) }

  private func persist() throws {
    try JSONEncoder().encode(Array(cache.values)).write(to: url, options: .atomic)
  }
}
