import MoraineEngine
import SystemPackage

/// Makes stores of Moraine whose entries end.
struct ExpiringMaker: SubjectMaker {
  var engine: Report.Engine { MoraineMaker().engine }

  func open(in path: String, _ options: SubjectOptions) throws -> ExpiringSubject {
    var configuration = Store.Configuration()
    configuration.durability = .none
    // RocksDB has no grace either.
    configuration.expiryGrace = .zero
    let store = try Store(at: FilePath("\(path)/store"), configuration: configuration)
    return ExpiringSubject(
      base: MoraineSubject(store: store), expiry: .after(.seconds(options.lifetimeSeconds)))
  }
}

/// A store in which each put has a lifetime.
struct ExpiringSubject: Subject {
  static var blocks: Bool { false }

  let base: MoraineSubject
  let expiry: Expiry

  @inline(__always)
  func put(_ key: KeyBytes, _ value: [UInt8]) async throws {
    try await base.store.set(value, forKey: Key(key), expiring: expiry)
  }

  func remove(_ key: KeyBytes) async throws { try await base.remove(key) }

  func put(
    _ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int
  ) async throws {
    for number in numbers { try await put(data.key(number), data.value(number)) }
  }

  /// Removes what has ended first: compaction only rewrites.
  func compact() async throws {
    try await base.store.removeExpired()
    try await base.store.compact()
  }

  func close() async throws { try await base.close() }
  func reader() -> MoraineReader { base.reader() }
}
