public import MoraineEngine
import Synchronization

/// What can be done with a persisted value beside reading and setting it: `$theme`.
public struct PersistedProjection<Value: Codable & Sendable>: Sendable {
  let box: PersistedBox<Value>
  let space: PersistedSpace

  /// The value as it is, and as it becomes, whoever changes it.
  public var values: PersistedValues<Value> { PersistedValues(box: box) }

  /// Why the value is not what the store holds; nil when it is, or is on its way there.
  ///
  /// A failed save, with the value kept for another attempt; or something stored that cannot be
  /// read, is of a later version, or of another type than this program uses for the key; or a store
  /// that cannot be opened: then setting changes nothing. Or `.storeReplaced`, when the files of
  /// the store were deleted, moved or replaced: then nothing can be saved before ``reload()``.
  public var error: StoreError? { box.error }

  /// Reads, changes and sets the value, with nobody in this process coming between.
  ///
  /// Other processes may: of what they set at the same time, what comes last into the log counts. A
  /// change that must be whole across processes belongs into
  /// ``/MoraineEngine/Store/write(durability:_:)``, which reads and writes while no other process
  /// can.
  ///
  /// - Parameter body: must not set the same value by another way: that stops the program. When it
  ///   throws, nothing changes; nor when setting is refused, which ``error`` says.
  /// - Returns: what the body returns.
  public func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try box.change(in: space, body)
  }

  /// Waits until everything that was set before is durable.
  ///
  /// - Throws: what ``error`` says, when this value is not saved: `.noSpace`, `.io`, `.poisoned`,
  ///   `.closed`, `.encodingFailed`, or why it cannot be set.
  public func save() async throws(StoreError) {
    try box.throwRefusal()
    try await space.attempt()
    try box.throwError()
    try await space.sync()
  }

  /// Takes what the store holds for the value; what could not be saved is given up.
  ///
  /// Where the store could not be opened before, was closed, or its files were deleted, moved or
  /// replaced, this opens the store that is at the place now, and all its values are taken from
  /// there. A store that was given as a keyspace is not opened again.
  ///
  /// - Throws: as opening a ``PersistedStore``, as ``/MoraineEngine/Store/value(forKey:)``, and
  ///   `.decodingFailed`, `.newerFormat`.
  public func reload() async throws(StoreError) {
    try await space.reload(Key(box.key.name), box)
    try box.throwError()
  }

  /// Sets the value, also over something that is stored and cannot be read.
  public func overwrite(with value: Value) {
    box.change(in: space, givesUp: true) { $0 = value }
  }

  /// Removes what is stored, also when it cannot be read: the value is the default.
  public func reset() {
    let value = box.key.defaultValue
    box.change(in: space, givesUp: true, removes: true) { $0 = value }
  }
}

extension PersistedBox {
  fileprivate func throwError() throws(StoreError) {
    if let error = state.withLock({ $0.error }) { throw error }
  }

  fileprivate func throwRefusal() throws(StoreError) {
    let error = state.withLock { $0.refusal == .none ? nil : $0.error }
    if let error { throw error }
  }
}
