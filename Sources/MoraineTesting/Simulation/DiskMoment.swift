/// The state of a simulated disk at one moment, from which every image that a power failure may
/// leave can be drawn.
///
/// A moment takes little memory: files that did not change share their bytes between moments.
package struct DiskMoment: Sendable {
  /// The two versions of a file's bytes.
  struct Versions: Sendable {
    /// The bytes that a read returns.
    var current: [UInt8] = []
    /// The bytes that survive every power failure.
    var synced: [UInt8] = []
    /// The pages that failed syncs did not write.
    var lost = LostPages()
  }

  /// The pages that failed syncs did not write.
  struct LostPages: Sendable {
    /// Pages of which the disk has an older version, with their bytes at the failed sync. The
    /// kernel considers the new version written, so the next sync skips the page unless it was
    /// written to again.
    var dropped: [Int: [UInt8]] = [:]
    /// Pages of which the disk has no version. As ext4 does, the disk leaves them marked as
    /// unwritten for good: after a power failure they read as zeros, even if they were written and
    /// synced again.
    var unwritten: Set<Int> = []

    var isEmpty: Bool { dropped.isEmpty && unwritten.isEmpty }
  }

  /// A name in a directory, and the files that a crash may leave under it.
  struct Name: Sendable {
    let name: String
    /// The file that now has the name; nil when it was removed.
    let current: Versions?
    /// The files that had the name since the last sync, the latest first; nil for times without a
    /// file.
    let between: [Versions?]
    /// The file that had the name when the directory was last synced, if it was another one.
    let synced: Versions?
    /// Whether a sync of the directory has made the present name durable.
    let isSynced: Bool

    /// The file that has the name after a crash.
    fileprivate func survivor(_ choice: inout CrashChoice) -> Versions? {
      if isSynced || choice.survives() { return current }
      for earlier in between where choice.survives() { return earlier }
      return synced
    }
  }

  struct Directory: Sendable {
    let path: String
    /// Whether the parent was synced after the directory was created. If not, a crash may remove
    /// the directory with its contents.
    let isSynced: Bool
    let names: [Name]
  }

  var directories: [Directory] = []

  /// An image that a crash at this moment may leave.
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

  /// Every image, when there are few. Otherwise the image without any unsynced change, the image
  /// with all of them, and random images with whole pages and with torn pages.
  ///
  /// - Returns: the images, each with the policy that draws it again.
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

  /// Enumerates all combinations of surviving changes; returns nil when there are more than the
  /// limit.
  private func everySubset(
    atMost limit: Int
  ) -> [(policy: CrashPolicy, image: DiskImage)]? {
    var result: [(CrashPolicy, DiskImage)] = []
    var path: [Bool] = []
    while result.count < limit {
      // Earlier decisions determine which later decisions exist, so the path grows during the walk.
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
