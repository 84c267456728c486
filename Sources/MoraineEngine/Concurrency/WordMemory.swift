import Synchronization

/// Words that threads or processes reach without a lock.
///
/// The protocols of the engine that do without locks are written against it. So the tests run the
/// same lines on a model of memory, in every order and with every value that the rules of C11
/// (RC11: Lahav et al., PLDI 2017) let a load give, and not only with those that this processor
/// happens to show. In the engine a method is one instruction.
protocol WordMemory {
  associatedtype Place
  /// `Never`, but for a model, which stops before each access.
  associatedtype Stop: Error

  func load(relaxed word: Place) throws(Stop) -> UInt64
  func load(acquiring word: Place) throws(Stop) -> UInt64
  func store(_ value: UInt64, relaxed word: Place) throws(Stop)
  func store(_ value: UInt64, releasing word: Place) throws(Stop)
  func acquiringFence() throws(Stop)
  func releasingFence() throws(Stop)
  func sequentiallyConsistentFence() throws(Stop)
}

/// Words that are also read and written in one step.
protocol ExchangingMemory: WordMemory {
  /// Acquiring and releasing.
  ///
  /// - Returns: the value before.
  func exchange(_ value: UInt64, in word: Place) throws(Stop) -> UInt64
  /// Adds, wrapping around; acquiring and releasing.
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
