import MoraineStorage

/// A call between an opening of a store and its end: the n-th of its kind on its file. The number
/// is the same in every run, whatever the committing thread does at the same time.
package struct StorageCall: Hashable, Sendable, CustomStringConvertible {
  let life: Int
  let operation: StorageEvent.Operation
  let file: String
  let number: Int

  package var description: String { "life \(life), \(operation.rawValue) \(number) of \(file)" }
}
