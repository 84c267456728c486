#if os(Linux)
  import Glibc
  import MoraineStorage
  import SystemPackage
  import Testing

  /// Rule 1: a new directory's name lies in its parent, which must be synced for it.
  @Suite struct DirectoryBirthTests {
    /// No test can see the sync; it sees that the parent is opened, which is done for nothing else.
    @Test func creatingADirectoryGoesToItsParent() throws {
      let ground = try Ground(.disk)
      let watcher = inotify_init1(Int32(IN_NONBLOCK))
      try #require(watcher >= 0)
      defer { close(watcher) }
      try #require(inotify_add_watch(watcher, ground.path.string, UInt32(IN_OPEN)) >= 0)
      try ground.storage.createDirectory(ground.path.appending("inner"))
      var events = [UInt8](repeating: 0, count: 4096)
      let count = read(watcher, &events, events.count)
      #expect(count > 0, "the parent was not opened")
    }
  }
#endif
