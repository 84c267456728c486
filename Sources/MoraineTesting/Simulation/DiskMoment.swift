/// A simulated disk at one moment: all that a power failure could make of it.
///
/// Cheap to take: moments share the bytes of files that did not change between them.
package struct DiskMoment: Sendable {
  typealias Versions = (current: [UInt8], synced: [UInt8])

  /// What a name leads to.
  struct Name: Sendable {
    let name: String
    /// The file that it leads to now; nil when it was removed.
    let current: Versions?
    /// The file that it led to when the directory was last synced, if that was another one.
    let synced: Versions?
    /// Whether the directory's sync has made it safe that it leads there.
    let isSynced: Bool
  }

  var directories: [(path: String, names: [Name])] = []

  /// The disk as a crash now may leave it.
  package func image(_ policy: CrashPolicy) -> DiskImage {
    var choice = CrashChoice(policy)
    return image(&choice)
  }

  func image(_ choice: inout CrashChoice) -> DiskImage {
    var image = DiskImage()
    for (path, names) in directories {
      var files: [String: [UInt8]] = [:]
      for name in names {
        let versions = name.isSynced || choice.survives() ? name.current : name.synced
        guard let versions else { continue }
        files[name.name] = choice.merge(versions.synced, versions.current)
      }
      image.directories[path] = files
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
