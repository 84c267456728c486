import Synchronization

/// Says, without asking the store, whether other processes have written to it.
///
/// Safety: two atomic words, one of this process and one of the shared page; pages that were ever
/// looked at stay mapped as long as this lives. The page's address is released after the page was
/// kept, so who acquires it may read there. The followed version is released after the store has
/// followed it: who sees the two versions alike may read what was followed. An older version of
/// either says "news", and the store is asked, which does no harm; the page's version is acquired,
/// and a process that was told of a change (through a file, a socket, a message) sees that change's
/// version or a younger one, by coherence.
final class PeerVersion: Sendable {
  /// Where it lies; 0 for nowhere.
  private let page = Atomic<UInt>(0)
  private let followedVersion = Atomic<UInt64>(0)
  private let pages = Mutex<[SharedPage]>([])

  func follow(_ page: SharedPage) {
    let isNew = pages.withLock { pages in
      if pages.last === page { return false }
      pages.append(page)
      return true
    }
    if isNew { self.page.store(UInt(bitPattern: page.base), ordering: .releasing) }
  }

  /// The store's actor alone calls it.
  func followed(_ version: UInt64) { followedVersion.store(version, ordering: .releasing) }

  @inline(__always)
  var hasNews: Bool {
    guard let base = UnsafeRawPointer(bitPattern: page.load(ordering: .acquiring)) else {
      return false
    }
    return SharedPage.version(at: base) != followedVersion.load(ordering: .acquiring)
  }
}
