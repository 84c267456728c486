/// A named part of a store with keys of its own.
///
/// All keyspaces of a store share its log and its syncs, and a batch may span them. One comes into
/// being with the first write to it, which waits for the disk once; until then it is empty.
///
/// ```swift
/// let users = try store.keyspace(named: "users")
/// try await users.set(bytes, forKey: "ada")
/// ```
public struct Keyspace: Sendable {
  /// The store that it is a part of.
  public let store: Store
  /// Empty for the one that ``Store``'s own methods are about.
  public let name: String

  /// The longest name, in bytes of UTF-8.
  public static let nameLengthBytes = 255
  /// How many names a store can have.
  public static let limit = 0xFEFF
}

extension Store {
  /// A part of this store. Touches nothing.
  ///
  /// - Parameter name: up to 255 bytes of UTF-8, compared as Swift compares text; empty for the
  ///   keyspace that the store's own methods are about.
  /// - Throws: `.keyTooLarge` when the name is longer.
  public nonisolated func keyspace(named name: String) throws(StoreError) -> Keyspace {
    guard name.utf8.count <= Keyspace.nameLengthBytes else {
      throw StoreError(
        .keyTooLarge,
        "a keyspace name of \(name.utf8.count) bytes; the limit is \(Keyspace.nameLengthBytes)")
    }
    return Keyspace(store: self, name: name)
  }

  /// The names of the keyspaces that were ever written to, but for the unnamed one; sorted. None
  /// when the store is closed or suspended.
  public var keyspaceNames: [String] {
    get async {
      await tryToCatchUp()
      return knownKeyspaceNames
    }
  }

  var knownKeyspaceNames: [String] {
    engine?.manifest.keyspaces.map(\.name).sorted() ?? []
  }
}

extension Keyspace: Hashable {
  public static func == (left: Keyspace, right: Keyspace) -> Bool {
    left.store === right.store && left.name == right.name
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(ObjectIdentifier(store))
    hasher.combine(name)
  }
}

/// What is live in a keyspace at one moment.
public struct KeyspaceStatistics: Hashable, Sendable {
  /// The keyspace's name; empty for the unnamed one.
  public internal(set) var name: String
  /// Live keys.
  public internal(set) var count = 0
  /// Bytes of their records in the log.
  public internal(set) var liveBytes: UInt64 = 0
}
