public import Foundation
import MoraineEngine

extension LocalRepository where Model.ID: LosslessStringConvertible {
  /// A repository that lives in memory and goes with its last reference: for tests and previews.
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    inMemory(models, keys: .lossless, format: format)
  }
}

extension LocalRepository where Model.ID == UUID {
  /// The same for ids that are UUIDs.
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    inMemory(models, keys: .uuid, format: format)
  }
}

extension LocalRepository
where Model.ID: RawRepresentable, Model.ID.RawValue: LosslessStringConvertible & Sendable {
  /// The same for ids that are enums: their raw value is the text of the key.
  @_disfavoredOverload
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    inMemory(models, keys: .rawValue, format: format)
  }
}

extension LocalRepository {
  /// Not available: an id of this type does not say how it is written.
  @available(
    *, unavailable, message: "give keys: ModelKey(text:id:), or a LosslessStringConvertible id"
  )
  @_disfavoredOverload
  public static func inMemory(
    _ models: [Model] = [], format: ModelFormat<Model> = .json
  ) -> LocalRepository {
    fatalError("the compiler does not permit this call")
  }

  /// The same for other ids: the caller gives the text of the key.
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

  /// Saves what the repository began with, before anything else is done with it.
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
    // A task costs a little each time it is asked.
    first = []
    preparation = nil
  }
}
