import ArgumentParser
import Foundation
import Moraine
import SystemPackage

/// The store directory, an argument of every command.
struct StoreOptions: ParsableArguments {
  @Argument(help: "The store's directory.", completion: .directory)
  var directory: String

  func validate() throws { try Self.refuseEmpty(directory, "the store's directory") }

  /// Refuses an empty path, which would be the current directory.
  static func refuseEmpty(_ path: String, _ name: String) throws {
    if path.isEmpty {
      throw ValidationError("the path of \(name) is empty; is a variable of the shell not set?")
    }
  }

  /// Opens an existing store read-only and runs the body. Nothing on disk changes: an unclean stop
  /// is not repaired either.
  func reading<Result>(_ body: (Store) async throws -> Result) async throws -> Result {
    var configuration = Store.Configuration()
    configuration.isReadOnly = true
    return try await using(configuration, body)
  }

  /// Opens the store like ``reading(_:)``, but also follows the writes of other processes.
  func following<Result>(_ body: (Store) async throws -> Result) async throws -> Result {
    var configuration = Store.Configuration()
    configuration.isReadOnly = true
    configuration.sharing = .shared
    return try await using(configuration, body)
  }

  /// Opens the store with durable commits and runs the body.
  ///
  /// - Parameter isAlone: whether to open it exclusively, also when processes have shared it.
  @discardableResult
  func writing<Result>(
    createIfMissing: Bool = true, isAlone: Bool = false, _ body: (Store) async throws -> Result
  ) async throws -> Result {
    try await openForWriting(createIfMissing: createIfMissing, isAlone: isAlone)
      .closed(after: body)
  }

  /// Opens the store for writing; the first write creates it. The caller closes it.
  ///
  /// A store that processes share, or have shared, is opened as a shared one: this process writes
  /// beside them, and keeps none of them from opening the store. Any other store is opened
  /// exclusively.
  func openForWriting(
    createIfMissing: Bool = true, isAlone: Bool = false
  ) async throws -> Store {
    var configuration = Store.Configuration()
    configuration.durability = .sync
    configuration.createIfMissing = createIfMissing
    configuration.sharing = wasShared && !isAlone ? .shared : .exclusive
    do {
      return try await Store.open(at: FilePath(directory), configuration: configuration)
    } catch {
      // Another process may have begun to share the store since the look.
      let mayShare = configuration.sharing == .exclusive && !isAlone
      guard error.code == .locked, mayShare, wasShared else { throw error }
      configuration.sharing = .shared
      return try await Store.open(at: FilePath(directory), configuration: configuration)
    }
  }

  /// Whether the store has the file that the processes of a shared store have in common.
  private var wasShared: Bool { FileManager.default.fileExists(atPath: directory + "/SHARED") }

  private func using<Result>(
    _ configuration: Store.Configuration, _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let store = try await Store.open(at: FilePath(directory), configuration: configuration)
    return try await store.closed(after: body)
  }
}

extension Store {
  /// Closes the store after the body returns or throws.
  // The optimizer of Swift 6.3.1 crashes where it inlines this (splitting the caller's coroutine).
  @inline(never)
  nonisolated func closed<Result>(
    after body: (Store) async throws -> Result
  ) async throws -> Result {
    let result: Result
    do {
      result = try await body(self)
    } catch {
      // The exit code reports the first failure.
      do { try await close() } catch let later { Output.error("while closing: \(later)") }
      throw error
    }
    try await close()
    return result
  }
}
