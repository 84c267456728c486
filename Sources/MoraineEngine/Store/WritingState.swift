/// Gates by which the writers of a store, and the tasks that replace its manifest, take turns.
///
/// Part of the store's actor: no other isolation uses it.
final class WritingState {
  /// Held by a writer that makes room for its records, or that keeps all other writers out.
  let roomGate = AsyncGate()
  /// Held while the manifest is replaced: rotation and compaction take turns.
  let manifestGate = AsyncGate()
  private var lacksSpace = false

  /// Records that an operation found no space.
  ///
  /// - Returns: whether space was not known to be lacking before.
  func beginsToLackSpace() -> Bool {
    defer { lacksSpace = true }
    return !lacksSpace
  }

  /// Records that a put found space.
  func foundSpace() { lacksSpace = false }
}
