import ArgumentParser
import Moraine
import SystemPackage

/// The directory that every command names.
struct StoreOptions: ParsableArguments {
  @Argument(help: "The store's directory.", completion: .directory)
  var directory: String

  /// Runs the body on a store that must be there; nothing on disk is changed, not even repaired.
  func reading<Result>(_ body: (Store) async throws -> Result) async throws -> Result {
    var configuration = Configuration()
    configuration.isReadOnly = true
    return try await using(configuration, body)
  }

  /// As ``reading(_:)``, and hears of what other processes write meanwhile.
  func following<Result>(_ body: (Store) async throws -> Result) async throws -> Result {
    var configuration = Configuration()
    configuration.isReadOnly = true
    configuration.sharing = .shared
    return try await using(configuration, body)
  }

  /// Runs the body on a store with durable commits.
  @discardableResult
  func writing<Result>(
    createIfMissing: Bool = true, _ body: (Store) async throws -> Result
  ) async throws -> Result {
    try await using(Self.durable(createIfMissing: createIfMissing), body)
  }

  /// Opens for writing; the first write makes the store. The caller closes it.
  func openForWriting() async throws -> Store {
    try await Store.open(at: FilePath(directory), configuration: Self.durable())
  }

  private static func durable(createIfMissing: Bool = true) -> Configuration {
    var configuration = Configuration()
    configuration.durability = .sync
    configuration.createIfMissing = createIfMissing
    return configuration
  }

  private func using<Result>(
    _ configuration: Configuration, _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let store = try await Store.open(at: FilePath(directory), configuration: configuration)
    return try await store.closed(after: body)
  }
}

extension Store {
  /// Closes the store when the body has ended, however it did.
  // The optimizer of Swift 6.3.1 crashes where it inlines this (splitting the caller's coroutine).
  @inline(never)
  nonisolated func closed<Result>(
    after body: (Store) async throws -> Result
  ) async throws -> Result {
    let result: Result
    do {
      result = try await body(self)
    } catch {
      // The first failure is the one that the exit code tells.
      do { try await close() } catch let later { Output.error("while closing: \(later)") }
      throw error
    }
    try await close()
    return result
  }
}
