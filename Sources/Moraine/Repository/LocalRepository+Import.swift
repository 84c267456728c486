public import Foundation
public import MoraineEngine

extension LocalRepository {
  /// Imports a file that holds one JSON array of all models, as the actor-repository pattern writes
  /// it.
  ///
  /// The import is atomic: all models become visible at once, or none. The store records the name
  /// of the file, without its folder, so the file is imported only once. Call this method at each
  /// start of the program; that is also correct after a crash during the import. The file is not
  /// changed. A model that the repository already holds is newer and is not replaced.
  ///
  /// - Parameters:
  ///   - url: the file. A file that does not exist is not an error: nothing is imported.
  ///   - decoder: the decoder for the file. The store writes the models in the repository's format.
  /// - Returns: the number of models that were imported; 0 when the file was imported before. If
  ///   two models have the same id, the last one counts.
  /// - Throws: `.decodingFailed` with the file's name when the file is not such an array, `.io`
  ///   when the file cannot be read, `.invalidArgument` when the URL is not that of a file; nothing
  ///   is imported then. Also the errors of ``save(_:)``.
  public func importArray(
    from url: URL, decoder: JSONDecoder = JSONDecoder()
  ) async throws(StoreError) -> Int {
    // Foundation would read such a URL from the network, or end the program.
    guard url.isFileURL else {
      throw StoreError(.invalidArgument, "'\(url)' is not the URL of a file")
    }
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
    var latest: [Key: (bytes: [UInt8], row: IndexRow?)] = [:]
    for model in models {
      let key = keys.key(model.id)
      let bytes = try format.encode(model, key, place)
      latest[key] = (bytes, try indexes?.row(of: format.asRead(model, bytes, key, place)))
    }
    return try await takeOver(latest, marker, log)
  }

  private func takeOver(
    _ models: [Key: (bytes: [UInt8], row: IndexRow?)], _ marker: Key, _ log: Keyspace
  ) async throws(StoreError) -> Int {
    let keyspace = keyspace
    do {
      return try await keyspace.store.write(durability: .sync) { batch in
        if try batch.contains(marker, in: log) { return 0 }
        var count = 0
        for (key, model) in models where try !batch.contains(key, in: keyspace) {
          try batch.set(
            model.bytes, forKey: key, in: keyspace, expiring: .never, row: model.row)
          count += 1
        }
        try batch.set(Array("\(count)".utf8), forKey: marker, in: log)
        return count
      }
    } catch {
      guard let error = error as? StoreError else {
        fatalError("a batch of an import threw an unexpected error: \(error)")
      }
      throw error
    }
  }

  /// Returns the contents of the file, or nil when no file exists.
  ///
  /// Only reading shows that no file exists: `FileManager.fileExists` also returns false for a file
  /// that it cannot examine.
  private static func contents(of url: URL) throws(StoreError) -> Data? {
    do { return try Data(contentsOf: url) } catch {
      if isMissing(error) { return nil }
      throw StoreError(.io, "the file cannot be read: \(error)", file: url.lastPathComponent)
    }
  }

  /// Whether a read has failed because no file exists at the path.
  private static func isMissing(_ error: any Error) -> Bool {
    guard let error = error as? CocoaError else { return false }
    if error.code == .fileReadNoSuchFile || error.code == .fileNoSuchFile { return true }
    // Foundation has no code of its own for a path with a file in the place of a folder.
    return (error.underlying as? POSIXError)?.code == .ENOTDIR
  }
}
