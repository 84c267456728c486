import Foundation
import MoraineEngine

extension LocalRepository {
  /// The number of models that one task decodes. Decoding takes most of the time of reading all
  /// models.
  private static var chunkCount: Int { 1_000 }

  /// Decodes models on all processors and keeps their order.
  ///
  /// - Throws: the errors of ``find(by:)``, for the first model that cannot be read.
  nonisolated func decoded(_ entries: [Store.Entry]) async throws(StoreError) -> [Model] {
    let starts = stride(from: 0, to: entries.count, by: Self.chunkCount)
    let chunks = starts.map { entries[$0..<min($0 + Self.chunkCount, entries.count)] }
    if chunks.count < 2 { return try decodedTogether(entries[...]) }
    let results = await withTaskGroup(of: (Int, Result<[Model], StoreError>).self) { group in
      for (number, chunk) in chunks.enumerated() {
        group.addTask {
          do throws(StoreError) { return (number, .success(try self.decodedTogether(chunk))) } catch
          {
            return (number, .failure(error))
          }
        }
      }
      var results = [Result<[Model], StoreError>](repeating: .success([]), count: chunks.count)
      for await (number, result) in group { results[number] = result }
      return results
    }
    var models: [Model] = []
    models.reserveCapacity(entries.count)
    for result in results { models += try result.get() }
    return models
  }

  /// Decodes the models as one array where that works: the decoder then starts and ends once, not
  /// for each model.
  private nonisolated func decodedTogether(
    _ entries: ArraySlice<Store.Entry>
  ) throws(StoreError) -> [Model] {
    if let models = format.decodeTogether(entries.lazy.map(\.value)),
      models.count == entries.count,
      // A value that is damaged can make the array decode into models that were not stored.
      zip(models, entries).allSatisfy({ keys.key($0.id) == $1.key })
    {
      return models
    }
    var models: [Model] = []
    for entry in entries { models.append(try format.decode(entry.value, entry.key, place)) }
    return models
  }
}
