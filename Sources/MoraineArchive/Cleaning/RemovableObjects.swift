/// The rule which data objects may be removed, by any process and at any time afterwards.
///
/// An object is named again only by a writer that uploads it, or by one that has read a checkpoint
/// that names it. So an object of which the following holds is never named again:
///
/// * The newest checkpoint N does not name it.
/// * When the term after that of N's writer was absent, N existed already: so each writer that
///   attaches later reads N, or a newer checkpoint.
/// * Its own writer can name it no more: either it has a lower term than N, which excludes it from
///   new checkpoints and commits, or it has named the object in a checkpoint before N. A segment
///   that was in a checkpoint and is not in a later one does not come back.
package struct RemovableObjects {
  /// The term of the writer of the newest checkpoint.
  package let newestTerm: UInt64
  /// The objects that a checkpoint that is kept names, or a commit that is kept.
  package var kept: Set<DataObjectName> = []
  /// The objects that a checkpoint that is not kept names.
  package var dropped: Set<DataObjectName> = []

  package init(newestTerm: UInt64) { self.newestTerm = newestTerm }

  package func contains(_ object: DataObjectName) -> Bool {
    if kept.contains(object) { return false }
    return object.term < newestTerm || dropped.contains(object)
  }
}
