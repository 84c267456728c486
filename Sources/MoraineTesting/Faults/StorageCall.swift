import MoraineStorage

/// One call of one life of a store: the n-th of its kind on its file. Stays the same from run to
/// run, whatever the committing thread does meanwhile.
package struct StorageCall: Hashable, Sendable, CustomStringConvertible {
  let life: Int
  let operation: StorageEvent.Operation
  let file: String
  let number: Int

  package var description: String { "life \(life), \(operation.rawValue) \(number) of \(file)" }
}
