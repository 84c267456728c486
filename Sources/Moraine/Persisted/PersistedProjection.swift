public import MoraineEngine
import Synchronization

/// The operations on a persisted value besides reading and setting it: `$theme`.
public struct PersistedProjection<Value: Codable & Sendable>: Sendable {
  let box: PersistedBox<Value>
  let space: PersistedSpace

  /// The current value, and each later one, from all writers.
  public var values: PersistedValues<Value> { PersistedValues(box: box) }

  /// The reason why the value differs from the store; nil when they agree, or when the value is on
  /// its way to the store.
  ///
  /// - A save failed. The value is kept for another attempt.
  /// - The stored value cannot be read: it is damaged, of a later version, or of another type than
  ///   this program uses for the key. Setting has no effect.
  /// - The store cannot be opened. Setting has no effect.
  /// - Changes of other writers could not be read. The next save in the same store that succeeds,
  ///   and ``reload()``, read them again.
  /// - `.storeReplaced`: the files of the store were deleted, moved or replaced. Nothing can be
  ///   saved before ``reload()``.
  public var error: StoreError? { box.error }

  /// Reads, changes and sets the value. No other thread of this process changes it in between.
  ///
  /// Another process may change it in between; then the value that comes last into the log counts.
  /// For a change that must be atomic across processes use
  /// ``/MoraineEngine/Store/write(durability:_:)``: it reads and writes while no other process can
  /// write.
  ///
  /// - Parameter body: changes the value. It must not set the same value in another way: that stops
  ///   the program. When the body throws, nothing changes. When setting has no effect, ``error``
  ///   has the reason.
  /// - Returns: the result of the body.
  public func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try box.change(in: space, body)
  }

  /// Waits until everything that was set before in the same store is durable.
  ///
  /// - Throws: ``error`` when this value is not saved: `.noSpace`, `.io`, `.poisoned`, `.closed`,
  ///   `.encodingFailed`, or the reason why it cannot be set.
  public func save() async throws(StoreError) {
    try box.throwRefusal()
    try await space.attempt()
    try box.throwUnsaved()
    try await space.sync()
  }

  /// Replaces the value by the stored one. A value that could not be saved is discarded.
  ///
  /// If the store could not be opened before, was closed, or its files were deleted, moved or
  /// replaced, this opens the store that is at its place now and reads all its values. A store that
  /// was given as a keyspace is not opened again.
  ///
  /// - Throws: the errors of opening a ``PersistedStore`` and of
  ///   ``/MoraineEngine/Store/value(forKey:)``; `.decodingFailed`, `.newerFormat`.
  public func reload() async throws(StoreError) {
    try await space.reload(Key(box.key.name), box)
    try box.throwError()
  }

  /// Sets the value, even if the stored value cannot be read.
  public func overwrite(with value: Value) {
    box.change(in: space, givesUp: true) { $0 = value }
  }

  /// Removes the stored value, even if it cannot be read. The value is then the default.
  public func reset() {
    let value = box.key.defaultValue
    box.change(in: space, givesUp: true, removes: true) { $0 = value }
  }
}

extension PersistedBox {
  fileprivate func throwError() throws(StoreError) {
    if let error = state.withLock({ $0.error }) { throw error }
  }

  /// Throws the error if the value is not saved, or if nothing can be saved any more. A value may
  /// be saved although the changes of other writers cannot be read.
  fileprivate func throwUnsaved() throws(StoreError) {
    let error = state.withLock { state -> StoreError? in
      guard let error = state.error else { return nil }
      return state.isPending || state.refusal != .none || !error.mayPass ? error : nil
    }
    if let error { throw error }
  }

  fileprivate func throwRefusal() throws(StoreError) {
    let error = state.withLock { $0.refusal == .none ? nil : $0.error }
    if let error { throw error }
  }
}
