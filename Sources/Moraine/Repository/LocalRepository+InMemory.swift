public import Foundation
import MoraineEngine

extension LocalRepository where Model.ID: LosslessStringConvertible {
  /// Returns a repository in memory, for tests and previews. Its models are released with the last
  /// reference to it.
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    inMemory(models, keys: .lossless, format: format)
  }
}

extension LocalRepository where Model.ID == UUID {
  /// Returns a repository in memory, for ids that are UUIDs.
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    inMemory(models, keys: .uuid, format: format)
  }
}

extension LocalRepository
where Model.ID: RawRepresentable, Model.ID.RawValue: LosslessStringConvertible & Sendable {
  /// Returns a repository in memory, for ids with a raw value, such as enums. The raw value is the
  /// text of the key.
  @_disfavoredOverload
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    inMemory(models, keys: .rawValue, format: format)
  }
}

extension LocalRepository {
  /// Not available: an id of this type has no text form that the repository knows.
  @available(
    *, unavailable, message: "pass keys: ModelKey(text:id:), or use a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    fatalError("the compiler does not permit this call")
  }

  /// Returns a repository in memory, for all other ids: `keys` converts an id to the text of its
  /// key and back.
  public static func inMemory(
    _ models: [Model] = [], keys: ModelKey<Model.ID>, format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    let keyspace: Keyspace
    do throws(StoreError) { keyspace = try Store.inMemory().keyspace(named: "") } catch {
      fatalError("the unnamed keyspace has a name that is too long: \(error)")
    }
    return LocalRepository(
      keyspace, place: "memory", format: format, keys: keys, cache: .bounded(bytes: 8 << 20),
      durability: nil, first: models)
  }

  /// Saves the models that the repository was created with. Every operation calls this first.
  func prepare() async throws(StoreError) {
    if let preparation {
      try await preparation.value.get()
      return
    }
    if first.isEmpty { return }
    let models = first
    let task = Task { () -> Result<Void, StoreError> in
      do throws(StoreError) {
        try await self.store(models)
        return .success(())
      } catch {
        return .failure(error)
      }
    }
    preparation = task
    try await task.value.get()
    // Awaiting the task costs a little for each operation, so it is dropped.
    first = []
    preparation = nil
  }
}
