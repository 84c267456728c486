import MoraineEngine

/// Disks that a crash during recovery left and that were judged: different crashes leave equal
/// ones.
///
/// Used by one task.
final class NestedImages {
  /// A disk, what it must hold, and how many more crashes were tried on it.
  private struct Judged: Hashable {
    let image: DiskImage.Fingerprint
    let state: Int
    let depth: Int
  }

  private var judged: Set<Judged> = []

  /// - Returns: whether it was not there yet.
  func insert(_ image: DiskImage, _ state: ModelStore.State, depth: Int) -> Bool {
    let new = Judged(image: image.fingerprint, state: state.hashValue, depth: depth)
    return judged.insert(new).inserted
  }
}
