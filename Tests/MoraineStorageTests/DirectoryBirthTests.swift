#if os(Linux)
  import Glibc
  import MoraineStorage
  import SystemPackage
  import Testing

  /// Rule 1: a new directory's name lies in its parent, which must be synced for it.
  @Suite struct DirectoryBirthTests {
    /// No test can observe the sync itself. This test observes that the parent is opened, which
    /// happens only for the sync.
    @Test(arguments: [false, true])
    func creatingADirectoryOpensItsParent(isThere: Bool) throws {
      let ground = try Ground(.disk)
      if isThere { try ground.storage.createDirectory(ground.path.appending("inner")) }
      let watcher = inotify_init1(Int32(IN_NONBLOCK))
      try #require(watcher >= 0)
      defer { close(watcher) }
      try #require(inotify_add_watch(watcher, ground.path.string, UInt32(IN_OPEN)) >= 0)
      try ground.storage.createDirectory(ground.path.appending("inner"))
      var events = [UInt8](repeating: 0, count: 4096)
      let count = read(watcher, &events, events.count)
      // Four numbers and a name. Events of the directory itself have no name.
      var offset = 0
      var isOpened = false
      while offset + 16 <= count {
        let lengths = events[offset + 12..<offset + 16].reversed()
        let length = lengths.reduce(0) { $0 << 8 | Int($1) }
        isOpened = isOpened || length == 0
        offset += 16 + length
      }
      #expect(isOpened, "the parent was not opened")
    }

    /// The medium holds the synced bytes, up to the end of the file.
    @Test func mediumHoldsTheSyncedBytes() throws {
      let ground = try Ground(.disk)
      let file = try ground.directory.createFile("f")
      let text = (0..<6000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      try text.withUnsafeBytes { try file.write($0, at: 0) }
      try file.synchronize(.full)
      let target = UnsafeMutableRawBufferPointer.allocate(byteCount: 8192, alignment: 4096)
      defer { target.deallocate() }
      // Nil where the file system cannot bypass its cache.
      guard let count = try file.readMedium(into: target, at: 0) else { return }
      #expect(count == 6000)
      #expect(target.prefix(6000).elementsEqual(text))
      // The file object reads and writes as before.
      try [9].withUnsafeBytes { try file.write($0, at: 5) }
      #expect(
        try file.read(into: UnsafeMutableRawBufferPointer(rebasing: target[1..<8]), at: 3) == 7)
      #expect(target[3] == 9)
    }
  }
#endif
