import ArgumentParser
import Moraine

/// The option that selects the keyspace a command uses.
struct KeyspaceOptions: ParsableArguments {
  @Option(
    name: .customLong("keyspace"),
    help: ArgumentHelp("The keyspace. Default: the unnamed one.", valueName: "name"))
  var name = ""

  func validate() throws {
    let limit = Keyspace.nameLengthBytes
    guard name.utf8.count <= limit else {
      throw ValidationError("--keyspace takes a name of up to \(limit) bytes")
    }
  }

  func callAsFunction(_ store: Store) throws(StoreError) -> Keyspace {
    try store.keyspace(named: name)
  }
}

extension Store {
  /// Returns the keyspace that an option names, or the unnamed one for an empty name.
  ///
  /// - Throws: a failure when the store has no keyspace with the name, which may be misspelt. It
  ///   must not look like a keyspace without entries.
  func existingKeyspace(named name: String) async throws -> Keyspace {
    if let reason = try await reasonForNoKeyspace(named: name) { throw Failure.usage(reason) }
    return try keyspace(named: name)
  }

  /// Returns what to say of a keyspace that the store does not have; nil when it has one with the
  /// name.
  private func reasonForNoKeyspace(named name: String) async throws -> String? {
    // The keyspaces of indexes are not listed.
    if name.isEmpty || IndexLayout.indexedName(of: name) != nil { return nil }
    let names = try await keyspaceNames()
    if names.contains(name) { return nil }
    return "the store has no keyspace '\(Text.printable(name.utf8))'; it has the unnamed one"
      + (names.isEmpty ? " only" : ", " + Self.listed(names))
  }

  /// Prints the names of the other keyspaces if a keyspace does not exist, or if it is the unnamed
  /// one, which no option names, and is empty.
  func noteNamedKeyspaces(beside keyspace: Keyspace) async throws {
    if let reason = try await reasonForNoKeyspace(named: keyspace.name) {
      return Output.note(reason)
    }
    guard keyspace.name.isEmpty, try await keyspace.count() == 0 else { return }
    let names = try await keyspaceNames()
    if names.isEmpty { return }
    Output.note("the unnamed keyspace is empty; the store has others: \(Self.listed(names))")
  }

  /// Returns the first names of keyspaces, for people to read.
  private static func listed(_ names: [String]) -> String {
    let limit = 20
    let shown = names.prefix(limit).map { "'\(Text.printable($0.utf8))'" }.joined(separator: ", ")
    let count = names.count - limit
    return count > 0 ? "\(shown) and \(Units.number(UInt64(count))) more" : shown
  }
}
