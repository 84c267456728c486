public import Foundation
public import MoraineEngine

extension LocalRepository {
  /// Takes over a file of the old pattern: one JSON array of all models.
  ///
  /// All of it becomes visible at once, or nothing. The store remembers that this file was taken
  /// over, by its name and not by its folder: calling this at each start of the program is right,
  /// also after a crash in the middle of it. The file stays as it is. Models that are there already
  /// are not replaced: they are newer.
  ///
  /// - Parameters:
  ///   - url: of the file. Where there is none, there is nothing to do.
  ///   - decoder: for the file; what is stored is written in the repository's format.
  /// - Returns: how many models were taken over; 0 when it was done before. Of two with one id the
  ///   last counts.
  /// - Throws: `.decodingFailed` with the file's name when it is not such an array, `.io` when it
  ///   cannot be read; nothing is taken over then. And as ``save(_:)``.
  public func importArray(
    from url: URL, decoder: JSONDecoder = JSONDecoder()
  ) async throws(StoreError) -> Int {
    try await prepare()
    let log: Keyspace = try keyspace.store.keyspace(named: "moraine.imports")
    let marker = Key("\(keyspace.name)/\(url.lastPathComponent)")
    if try await log.contains(marker) { return 0 }
    let store = keyspace.store
    let found = try await store.runBlocking { () throws(StoreError) in try Self.contents(of: url) }
    guard let data = found else { return 0 }
    let models: [Model]
    do { models = try decoder.decode([Model].self, from: data) } catch {
      throw StoreError(
        .decodingFailed, "not an array of models: \(error)", file: url.lastPathComponent)
    }
    var latest: [Key: [UInt8]] = [:]
    for model in models {
      let key = keys.key(model.id)
      do { latest[key] = try format.encode(model) } catch {
        throw StoreError(
          .encodingFailed, "the model '\(key)' cannot be encoded: \(error)", file: place)
      }
    }
    return try await takeOver(latest, marker, log)
  }

  private func takeOver(
    _ models: [Key: [UInt8]], _ marker: Key, _ log: Keyspace
  ) async throws(StoreError) -> Int {
    let keyspace = keyspace
    do {
      return try await keyspace.store.write(durability: .sync) { batch in
        if try batch.contains(marker, in: log) { return 0 }
        var count = 0
        for (key, bytes) in models where try !batch.contains(key, in: keyspace) {
          try batch.set(bytes, forKey: key, in: keyspace)
          count += 1
        }
        try batch.set(Array("\(count)".utf8), forKey: marker, in: log)
        return count
      }
    } catch {
      guard let error = error as? StoreError else {
        fatalError("a batch that throws errors of the store alone threw \(error)")
      }
      throw error
    }
  }

  /// Nil where there is no file.
  private static func contents(of url: URL) throws(StoreError) -> Data? {
    guard FileManager.default.fileExists(atPath: url.path) else { return nil }
    do { return try Data(contentsOf: url) } catch {
      throw StoreError(.io, "cannot be read: \(error)", file: url.lastPathComponent)
    }
  }
}
