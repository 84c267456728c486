import Synchronization

/// The version of the shared page that the store has followed. It tells, without asking the store,
/// whether other processes have written.
///
/// Safety: two atomic words, one of this process and one of the shared page. Pages that were ever
/// looked at stay mapped while this object exists. The page's address is stored with release order
/// after the page was kept, so a thread that acquires the address may read there. The followed
/// version is released after the store has followed it, so a thread that sees both versions equal
/// may read what was followed. An older version of either word means "news"; the store is then
/// asked, which does no harm. The page's version is acquired. A process that was told of a change
/// (through a file, a socket, a message) sees that change's version or a younger one, by coherence.
final class PeerVersion: Sendable {
  /// Address of the page; 0 when there is none.
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

  /// Only the store's actor calls this function.
  func followed(_ version: UInt64) { followedVersion.store(version, ordering: .releasing) }

  @inline(__always)
  var hasNews: Bool {
    guard let base = UnsafeRawPointer(bitPattern: page.load(ordering: .acquiring)) else {
      return false
    }
    return SharedPage.version(at: base) != followedVersion.load(ordering: .acquiring)
  }
}
