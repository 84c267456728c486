public import SystemPackage

// A call with a body has two error types: the store's, and that of the body. Swift can declare one
// of them, and has no way to write "the one or the other". So each call has two forms. With a body
// that throws nothing, or that is declared `throws(StoreError)`, the call throws `StoreError`:
// these are the forms of this file. With any other body the call throws any error.
//
// The compiler chooses the form. It takes a closure that contains `try` for one that throws any
// error, unless the closure says `throws(StoreError)`.

extension StoreError {
  /// Takes the error of a call whose body throws no other errors.
  package init(of error: any Error) {
    guard let error = error as? StoreError else {
      preconditionFailure("a call whose body throws errors of the store has thrown \(error)")
    }
    self = error
  }
}

extension Store {
  /// Runs a body that throws no errors, or those of the store, with a batch. See
  /// ``write(durability:_:)``.
  @discardableResult
  public func write<Result>(
    durability: Durability? = nil,
    _ body: sending (inout WriteBatch) throws(StoreError) -> Result
  ) async throws(StoreError) -> sending Result {
    do { return try await write(durability: durability) { try body(&$0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Replaces the value of a key, with a body that throws no errors, or those of the store. See
  /// ``update(_:durability:_:)``.
  @discardableResult
  public func update(
    _ key: Key, durability: Durability? = nil,
    _ body: sending ([UInt8]?) throws(StoreError) -> [UInt8]?
  ) async throws(StoreError) -> [UInt8]? {
    do { return try await update(key, durability: durability) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with the value of a key. See
  /// ``withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws(StoreError) -> Result
  ) async throws(StoreError) -> sending Result? {
    do { return try await withValue(forKey: key) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with every live record. See
  /// ``scan(_:)``.
  public func scan(
    _ body: sending (Store.Entry) throws(StoreError) -> Bool
  ) async throws(StoreError) {
    do { try await scan { try body($0) } } catch { throw StoreError(of: error) }
  }
}

extension Keyspace {
  /// Replaces the value of a key, with a body that throws no errors, or those of the store. See
  /// ``Store/update(_:durability:_:)``.
  @discardableResult
  public func update(
    _ key: Key, durability: Durability? = nil,
    _ body: sending ([UInt8]?) throws(StoreError) -> [UInt8]?
  ) async throws(StoreError) -> [UInt8]? {
    do { return try await update(key, durability: durability) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with the value of a key. See
  /// ``Store/withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: sending (RawSpan) throws(StoreError) -> Result
  ) async throws(StoreError) -> sending Result? {
    do { return try await withValue(forKey: key) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }

  /// Calls a body that throws no errors, or those of the store, with every live record. See
  /// ``Store/scan(_:)``.
  public func scan(
    _ body: sending (Store.Entry) throws(StoreError) -> Bool
  ) async throws(StoreError) {
    do { try await scan { try body($0) } } catch { throw StoreError(of: error) }
  }
}

extension Store.Reader {
  /// Calls a body that throws no errors, or those of the store, with the value of a key. See
  /// ``withValue(forKey:_:)``.
  public func withValue<Result>(
    forKey key: Key, _ body: (RawSpan) throws(StoreError) -> Result
  ) throws(StoreError) -> Result? {
    do { return try withValue(forKey: key) { try body($0) } } catch {
      throw StoreError(of: error)
    }
  }
}

/// Opens a store, runs a body that throws no errors, or those of the store, and closes the store.
///
/// - Throws: the body's error, or else the error of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at directory: FilePath, configuration: Store.Configuration = .init(),
  _ body: (Store) async throws(StoreError) -> Result
) async throws(StoreError) -> Result {
  do {
    return try await withStore(at: directory, configuration: configuration) { try await body($0) }
  } catch {
    throw StoreError(of: error)
  }
}

/// Opens the store in the directory with this path, runs a body that throws no errors, or those of
/// the store, and closes the store.
///
/// - Throws: the body's error, or else the error of opening or closing.
@discardableResult
nonisolated(nonsending) public func withStore<Result>(
  at path: String, configuration: Store.Configuration = .init(),
  _ body: (Store) async throws(StoreError) -> Result
) async throws(StoreError) -> Result {
  try await withStore(at: FilePath(path), configuration: configuration, body)
}
