import MoraineFormat
import MoraineStorage
public import SystemPackage

/// An error of the store: what happened, where, and what to do.
public struct StoreError: Error, Sendable {
  /// The kind of failure. Later versions may add kinds, so always have a `default`.
  public struct Code: Hashable, Sendable, CustomStringConvertible {
    public let description: String
    private init(_ name: String) { description = name }

    /// The store was closed.
    public static let closed = Code("closed")
    /// The store is suspended; resume it first.
    public static let suspended = Code("suspended")
    /// Another process, or another `Store` of this process, has the directory open.
    public static let locked = Code("locked")
    /// The store was opened for reading only.
    public static let readOnly = Code("readOnly")
    /// Bytes on disk differ from those that were written. Restore the store from a backup.
    public static let corrupted = Code("corrupted")
    /// A newer version of Moraine wrote the store.
    public static let newerFormat = Code("newerFormat")
    /// The key is longer than `StoreLimits.keyLengthBytes`.
    public static let keyTooLarge = Code("keyTooLarge")
    /// The value, or the whole batch, is longer than the format allows.
    public static let valueTooLarge = Code("valueTooLarge")
    /// The disk or a quota is full. Free space and try again; the store need not be reopened.
    public static let noSpace = Code("noSpace")
    /// The operating system refused an operation.
    public static let io = Code("io")
    /// An earlier failure left the contents of the disk unknown. Reads continue; reopen the store
    /// to write.
    public static let poisoned = Code("poisoned")
    /// The store's files were deleted, moved or replaced while the store was open or suspended.
    /// Later writes may be lost. Open the path again to continue with the files that are there now.
    public static let storeReplaced = Code("storeReplaced")
    /// A limit was reached, and nothing was changed. Either of the system: it has no thread,
    /// descriptor or address space left for this process; free some, or raise the limit, and try
    /// again. Or of the format: the number of keyspaces, segments, sequence numbers or indexes of a
    /// keyspace. Or of a query: it would sort more models in memory than it may.
    public static let limitExceeded = Code("limitExceeded")
    /// The process forked after opening the store; only the parent may write.
    public static let usedAfterFork = Code("usedAfterFork")
    /// The path holds no store, or holds something else.
    public static let notAStore = Code("notAStore")
    /// The log no longer holds all changes after the cursor.
    public static let cursorExpired = Code("cursorExpired")
    /// The cursor is of another store or of another epoch, or of changes that the store has lost.
    public static let cursorDiverged = Code("cursorDiverged")
    /// The backup holds another store, or operations that this store has lost.
    public static let historyDiverged = Code("historyDiverged")
    /// The backup does not hold the state at that sequence number: the number lies after the end of
    /// the backup, or compaction has dropped records of that state.
    public static let sequenceUnavailable = Code("sequenceUnavailable")
    /// The task was cancelled before the call ended.
    public static let cancelled = Code("cancelled")
    /// Another machine has taken over the history of this store, whose copies are in an archive.
    /// Nothing more is written here; reads continue.
    public static let fenced = Code("fenced")
    /// The archive did not confirm a write with ``Durability/replicated`` in time, or there is
    /// none. The write is on stable storage here, and may be in the archive.
    public static let archiveUnavailable = Code("archiveUnavailable")
    /// An argument names nothing that the call could use, for example a path that is no path.
    public static let invalidArgument = Code("invalidArgument")
    /// Every attempt of a transaction has met a write of another task or process to what it had
    /// read. Nothing was written. See ``StoreError/conflict``.
    public static let conflict = Code("conflict")
    /// Another model has the value of a unique index. Nothing was written. See
    /// ``StoreError/duplicate``.
    public static let notUnique = Code("notUnique")
    /// A model could not be encoded.
    public static let encodingFailed = Code("encodingFailed")
    /// A stored value could not be decoded.
    public static let decodingFailed = Code("decodingFailed")
  }

  private final class Storage: Sendable {
    let code: Code
    let message: String
    let file: String?
    let offset: UInt64?
    let errno: Errno?
    let conflict: Conflict?
    let duplicate: Duplicate?

    init(
      _ code: Code, _ message: String, _ file: String? = nil, _ offset: UInt64? = nil,
      _ errno: Errno? = nil, _ conflict: Conflict? = nil, _ duplicate: Duplicate? = nil
    ) {
      self.code = code
      self.message = message
      self.file = file
      self.offset = offset
      self.errno = errno
      self.conflict = conflict
      self.duplicate = duplicate
    }
  }

  // The error is one word, so that throwing functions stay cheap.
  private let storage: Storage

  /// Creates an error, for a program's own storage or for a test.
  ///
  /// - Parameters:
  ///   - code: the kind of failure.
  ///   - message: what happened and what to do, in words.
  ///   - file: the file's name in the store's directory, or the directory's path.
  ///   - offset: the place in the file, in bytes from its beginning.
  ///   - errno: the error of the operating system.
  public init(
    _ code: Code, _ message: String, file: String? = nil, offset: UInt64? = nil,
    errno: Errno? = nil
  ) {
    storage = Storage(code, message, file, offset, errno)
  }

  /// The kind of failure, for decisions of a program.
  public var code: Code { storage.code }
  /// Description of the failure and of what to do.
  public var message: String { storage.message }
  /// The file's name in the store's directory, or the directory's path.
  public var file: String? { storage.file }
  /// The place in the file, in bytes from its beginning.
  public var offset: UInt64? { storage.offset }
  /// The error of the operating system.
  public var errno: Errno? { storage.errno }
  /// What has changed, in an error with the code ``Code/conflict``; nil in others.
  public var conflict: Conflict? { storage.conflict }

  /// The two models, in an error with the code ``Code/notUnique``; nil in others.
  public var duplicate: Duplicate? { storage.duplicate }

  /// Two models with the same value in a unique index.
  public struct Duplicate: Hashable, Sendable {
    /// The name of the index.
    public let index: String
    /// The key of the model that was to be saved.
    public let key: Key
    /// The key of the model that has the value.
    public let holder: Key
  }

  init(_ duplicate: Duplicate) {
    let message =
      "the model '\(duplicate.key)' has the same value in the unique index "
      + "'\(duplicate.index)' as the model '\(duplicate.holder)'; nothing was saved"
    storage = Storage(.notUnique, message, nil, nil, nil, nil, duplicate)
  }

  /// What a transaction had read, and another writer has changed before the transaction's end.
  public struct Conflict: Hashable, Sendable {
    /// The name of the keyspace; empty for the unnamed one.
    public let keyspace: String
    /// The first key that was found changed; nil when the number of keys of a keyspace has changed,
    /// or when another process has removed files that the transaction had not read yet.
    public let key: Key?
  }

  init(_ conflict: Conflict, attempts: Int) {
    let what = conflict.key.map { "the key '\($0)'" } ?? "a key"
    let message =
      "other writers changed \(what) of the keyspace '\(conflict.keyspace)' during each of "
      + "\(attempts) attempts of a transaction; make the transaction shorter, or try again"
    storage = Storage(.conflict, message, nil, nil, nil, conflict)
  }
}

extension StoreError {
  /// The message, for a log, which must have no keys and no values; nil where it may name some.
  package var messageForLogs: String? {
    Self.codesForLogs.contains(code) ? message : nil
  }

  /// The codes of errors whose messages name no key and no value, in what a store reports. A code
  /// that is added later is not in this list until its messages are known.
  private static let codesForLogs: Set<Code> = [
    .closed, .suspended, .locked, .readOnly, .corrupted, .noSpace, .io, .poisoned, .storeReplaced,
    .limitExceeded, .usedAfterFork, .notAStore, .cursorExpired, .cursorDiverged, .historyDiverged,
    .sequenceUnavailable, .fenced, .archiveUnavailable,
  ]
}

extension StoreError: CustomStringConvertible {
  public var description: String {
    var text = "\(code): \(message)"
    if let file { text += " [\(file)" + (offset.map { " at byte \($0)" } ?? "") + "]" }
    return text
  }
}

extension StoreError {
  /// Creates the error for a failed operation of the storage layer.
  init(_ error: StorageError) {
    if error.isNoSpace {
      self.init(
        .noSpace, "no space left to \(error.operation); free space and try again",
        file: error.file, offset: error.offset, errno: error.errno)
    } else if error.isReplaced {
      self.init(
        .storeReplaced,
        "\(error.file) was deleted, moved or replaced while the store was open; open the path "
          + "again to use the files that exist now", file: error.file, errno: error.errno)
    } else if error.isLimit {
      self.init(
        .limitExceeded,
        "could not \(error.operation): \(error.errno); free resources or raise the limit",
        file: error.file.isEmpty ? nil : error.file, offset: error.offset, errno: error.errno)
    } else {
      self.init(
        .io, "could not \(error.operation): \(error.errno)",
        file: error.file, offset: error.offset, errno: error.errno)
    }
  }

  /// Creates the error for bytes that violate the format.
  init(_ error: FormatError, file: String) {
    switch error.kind {
    case .damaged:
      self.init(
        .corrupted, "\(error.reason); restore the store from a backup", file: file,
        offset: error.offset)
    case .newer:
      self.init(
        .newerFormat, "\(error.reason): written by a newer version of Moraine; update this program",
        file: file, offset: error.offset)
    }
  }

  /// The error of a call of a closed store.
  static var ofClosedStore: StoreError {
    StoreError(.closed, "the store was closed; open it again")
  }

  /// The error of a call of a suspended store.
  static var ofSuspendedStore: StoreError {
    StoreError(.suspended, "the store is suspended; resume it first")
  }

  static func corrupted(_ what: String, _ file: String, at offset: Int) -> StoreError {
    StoreError(
      .corrupted, "\(what); restore the store from a backup", file: file, offset: UInt64(offset))
  }

  /// Returns the error for an index that does not fit the log.
  ///
  /// - Parameter checkpoint: the file that the index was loaded from; nil when it is not known.
  static func indexDamaged(_ what: String, _ checkpoint: String?) -> StoreError {
    StoreError(
      .corrupted,
      "\(what); close the store and remove its *.index files: opening then reads the log",
      file: checkpoint ?? "*.index")
  }
}

/// Runs calls of the storage layer, and converts their errors to errors of the store.
func storing<Result>(
  _ body: () throws(StorageError) -> Result
) throws(StoreError) -> Result {
  do throws(StorageError) { return try body() } catch { throw StoreError(error) }
}

extension StoreError {
  /// The error of a store that a forked child uses.
  static var usedAfterFork: StoreError {
    StoreError(
      .usedAfterFork,
      "this process was forked after the store was opened; open it again in the child")
  }
}
