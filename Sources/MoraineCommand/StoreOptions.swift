import ArgumentParser
import Moraine
import SystemPackage

/// The directory that every command names.
struct StoreOptions: ParsableArguments {
  @Argument(help: "The store's directory.", completion: .directory)
  var directory: String

  /// Opens a store that must be there; nothing is created.
  func openExisting() async throws -> Store {
    var configuration = Configuration()
    configuration.createIfMissing = false
    return try await Store.open(at: FilePath(directory), configuration: configuration)
  }

  /// Opens for writing with durable commits; a first write makes the store.
  func openForWriting() async throws -> Store {
    var configuration = Configuration()
    configuration.durability = .sync
    return try await Store.open(at: FilePath(directory), configuration: configuration)
  }
}
