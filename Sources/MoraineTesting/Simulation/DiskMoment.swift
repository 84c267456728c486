/// A simulated disk at one moment: all that a power failure could make of it.
///
/// Cheap to take: moments share the bytes of files that did not change between them.
package struct DiskMoment: Sendable {
  /// The bytes of a file.
  struct Versions: Sendable {
    /// Those of now.
    var current: [UInt8] = []
    /// Those that a power failure cannot take.
    var synced: [UInt8] = []
    /// What failed syncs have done to its pages.
    var lost = LostPages()
  }

  /// Pages that a failed sync did not write.
  struct LostPages: Sendable {
    /// Pages that the disk has in an older version. The kernel takes the new one for written, so
    /// the next sync leaves it out, unless the page was written to again. With what each held when
    /// the sync failed.
    var dropped: [Int: [UInt8]] = [:]
    /// Pages that the disk never had. As ext4 does, it leaves them marked as unwritten for good:
    /// they read as zeros after a power failure, whatever is written there, and synced, later on.
    var unwritten: Set<Int> = []

    var isEmpty: Bool { dropped.isEmpty && unwritten.isEmpty }
  }

  /// What a name leads to.
  struct Name: Sendable {
    let name: String
    /// The file that it leads to now; nil when it was removed.
    let current: Versions?
    /// The files that it led to in between, the latest first; nil where it led to none.
    let between: [Versions?]
    /// The file that it led to when the directory was last synced, if that was another one.
    let synced: Versions?
    /// Whether the directory's sync has made it safe that it leads there.
    let isSynced: Bool

    /// The file that a crash leaves under the name.
    fileprivate func survivor(_ choice: inout CrashChoice) -> Versions? {
      if isSynced || choice.survives() { return current }
      for earlier in between where choice.survives() { return earlier }
      return synced
    }
  }

  struct Directory: Sendable {
    let path: String
    /// Whether its parent was synced since it was made; otherwise a crash may take it, with all
    /// that is in it.
    let isSynced: Bool
    let names: [Name]
  }

  var directories: [Directory] = []

  /// The disk as a crash now may leave it.
  package func image(_ policy: CrashPolicy) -> DiskImage {
    var choice = CrashChoice(policy)
    return image(&choice)
  }

  func image(_ choice: inout CrashChoice) -> DiskImage {
    var image = DiskImage()
    for directory in directories where directory.isSynced || choice.survives() {
      var files: [String: [UInt8]] = [:]
      for name in directory.names {
        guard let versions = name.survivor(&choice) else { continue }
        files[name.name] = choice.merge(versions)
      }
      image.directories[directory.path] = files
    }
    return image
  }

  /// Every image when there are few, otherwise some of each kind: nothing lost, all of it lost, and
  /// drawn ones, with whole pages and with torn ones.
  ///
  /// - Returns: the images, each with the policy that makes it again.
  package func images(
    subsets: Int, torn: Int, seed: UInt64
  ) -> [(policy: CrashPolicy, image: DiskImage)] {
    var result = [(CrashPolicy.nothing, image(.nothing)), (.everything, image(.everything))]
    if let all = everySubset(atMost: subsets) {
      result += all
    } else {
      result += (0..<subsets).map { number in
        let policy = CrashPolicy.pages(seed: seed &+ UInt64(number))
        return (policy, image(policy))
      }
    }
    result += (0..<torn).map { number in
      let policy = CrashPolicy.sectors(seed: seed &+ UInt64(subsets + number))
      return (policy, image(policy))
    }
    return result
  }

  /// Goes through all combinations of what may survive; nil when there are more than so many.
  private func everySubset(
    atMost limit: Int
  ) -> [(policy: CrashPolicy, image: DiskImage)]? {
    var result: [(CrashPolicy, DiskImage)] = []
    var path: [Bool] = []
    while result.count < limit {
      // What survives decides what else there is to decide, so the path grows while it is walked.
      var choice = CrashChoice(.choices(path))
      let image = image(&choice)
      path = choice.taken
      result.append((.choices(path), image))
      while path.last == true { path.removeLast() }
      guard let last = path.indices.last else { return result }
      path[last] = true
    }
    return nil
  }
}
