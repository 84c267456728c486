/// A store of objects: a directory, or a bucket of a server that speaks S3.
///
/// **What an archive depends on.** Each verb is atomic and linearizable: a reader finds an object
/// whole or not at all, ``create(_:_:)`` creates a name once, however many machines try, and what
/// one call has written the next one reads, on each connection. ``list(under:after:limit:)`` alone
/// may be out of date: no decision depends on it.
public protocol ObjectStore: Sendable {
  /// Creates an object, unless one has the name.
  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation

  /// Creates or replaces an object.
  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError)

  /// Returns the bytes of an object; nil only when the store has said that no object has the name.
  ///
  /// - Parameters:
  ///   - name: the name of the object.
  ///   - range: which bytes; nil for all. A range that reaches beyond the end returns the bytes up
  ///     to the end.
  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]?

  /// Removes objects. It is not an error when a name has none.
  func remove(_ names: [ObjectName]) async throws(ObjectStoreError)

  /// Returns names under a prefix, in the order of their bytes. For people, and for what may be
  /// removed.
  ///
  /// - Parameters:
  ///   - prefix: whole parts; the root for all names.
  ///   - last: the last name that the caller has; nil for the first ones.
  ///   - limit: the largest number of names.
  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName]
}

/// The result of ``ObjectStore/create(_:_:)``.
public enum ObjectCreation: Hashable, Sendable {
  /// The object exists now, and did not before.
  case created
  /// An object has the name already, of this request repeated or of another one.
  case exists
}

/// An error of a store of objects.
public struct ObjectStoreError: Error, Sendable, CustomStringConvertible {
  /// The kind of failure. Later versions may add kinds, so always have a `default`.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    public let description: String
    private init(_ name: String) { description = name }

    /// The store cannot be reached, or is overloaded. Repeat the request later.
    public static let unavailable = Code("unavailable")
    /// The store refuses the request: missing or wrong credentials, or no permission.
    public static let denied = Code("denied")
    /// The store has no room.
    public static let noSpace = Code("noSpace")
    /// The store gave an answer that the protocol does not allow, or cannot do what an archive
    /// needs.
    public static let unsupported = Code("unsupported")
    /// The bytes of the body could not be read, see ``ObjectStoreError/message``.
    public static let unreadableBody = Code("unreadableBody")
    /// The task was cancelled.
    public static let cancelled = Code("cancelled")
  }

  /// The kind of failure, for decisions of a program.
  public let code: Code
  /// What happened and what to do, in words.
  public let message: String
  /// The object of the request.
  public let object: ObjectName?
  /// Whether the request may have had its effect, or may still have it: its answer was lost.
  public let mayHaveHadEffect: Bool

  /// Creates an error; for programs that implement ``ObjectStore``.
  public init(
    _ code: Code, _ message: String, object: ObjectName? = nil, mayHaveHadEffect: Bool
  ) {
    (self.code, self.message, self.object) = (code, message, object)
    self.mayHaveHadEffect = mayHaveHadEffect
  }

  /// Whether the same request may succeed later.
  public var isTemporary: Bool { code == .unavailable || code == .noSpace }

  public var description: String {
    "\(code): \(message)" + (object.map { " (\($0))" } ?? "")
  }
}
