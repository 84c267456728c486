import MoraineEngine

/// The disks that crashes during recovery have left so far. Different crashes often leave equal
/// disks, and each is judged once.
///
/// Not thread-safe: one task uses a value.
final class NestedImages {
  /// A disk, the contents that the store must have, and the number of further crashes tried on it.
  private struct Judged: Hashable {
    let image: DiskImage.Fingerprint
    let state: Int
    let depth: Int
  }

  private var judged: Set<Judged> = []

  /// - Returns: whether the disk is new.
  func insert(_ image: DiskImage, _ state: ModelStore.State, depth: Int) -> Bool {
    let new = Judged(image: image.fingerprint, state: state.hashValue, depth: depth)
    return judged.insert(new).inserted
  }
}
