import Synchronization

/// Words that threads or processes reach without a lock.
///
/// The lock-free protocols of the engine are written against this protocol. So the tests run the
/// same code on a model of memory: in every order, and with every value that the rules of C11
/// (RC11: Lahav et al., PLDI 2017) allow a load to read, not only with those that this processor
/// happens to show. In the engine each method is one instruction.
protocol WordMemory {
  associatedtype Place
  /// `Never` in the engine. A model of memory stops before each access by throwing.
  associatedtype Stop: Error

  func load(relaxed word: Place) throws(Stop) -> UInt64
  func load(acquiring word: Place) throws(Stop) -> UInt64
  func store(_ value: UInt64, relaxed word: Place) throws(Stop)
  func store(_ value: UInt64, releasing word: Place) throws(Stop)
  func acquiringFence() throws(Stop)
  func releasingFence() throws(Stop)
  func sequentiallyConsistentFence() throws(Stop)
}

/// Words that one step can both read and write.
protocol ExchangingMemory: WordMemory {
  /// Exchanges the value of a word, with acquiring and releasing order.
  ///
  /// - Returns: the value before the exchange.
  func exchange(_ value: UInt64, in word: Place) throws(Stop) -> UInt64
  /// Adds to a word, wrapping around, with acquiring and releasing order.
  func add(_ value: UInt64, to word: Place) throws(Stop)
}

extension WordMemory {
  @inline(__always)
  func acquiringFence() { atomicMemoryFence(ordering: .acquiring) }

  @inline(__always)
  func releasingFence() { atomicMemoryFence(ordering: .releasing) }

  @inline(__always)
  func sequentiallyConsistentFence() { atomicMemoryFence(ordering: .sequentiallyConsistent) }
}
