import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// The simulated disk can lose everything that a real disk can lose.
@Suite struct SimulatedDiskTests {
  private let disk = SimulatedDisk()

  private func directory() throws -> any StorageDirectory {
    try disk.createDirectory("d")
    return try #require(try disk.openDirectory("d"))
  }

  private func write(_ text: String, to file: any StorageFile, at offset: UInt64 = 0) throws {
    try Array(text.utf8).withUnsafeBytes { try file.write($0, at: offset) }
  }

  private func file(_ name: String, after policy: CrashPolicy) -> String? {
    disk.image(policy).directories["d"]?[name].map { String(decoding: $0, as: UTF8.self) }
  }

  /// Returns the contents of one file in every image of this moment.
  private func possible(_ name: String) -> Set<String?> {
    Set(
      disk.moment().images(subsets: 64, torn: 8, seed: 1).map { _, image in
        image.directories["d"]?[name].map { String(decoding: $0, as: UTF8.self) }
      })
  }

  @Test func diskLosesBytesThatWereNotSynced() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try write("old", to: file)
    try file.synchronize(.full)
    try directory.synchronize()
    try write("new", to: file)
    #expect(self.file("f", after: .nothing) == "old")
    #expect(self.file("f", after: .everything) == "new")
    #expect(possible("f") == ["old", "new"])
    try file.synchronize(.data)
    #expect(possible("f") == ["new"])
  }

  /// Runs the body while the next call runs that may change the disk.
  private func duringTheNextCall(_ body: @escaping @Sendable () throws -> Void) {
    disk.setObserver { [disk] in
      disk.setObserver(nil)
      do { try body() } catch { Issue.record(error) }
    }
  }

  /// Regression: a sync made durable what was written while it ran. Linux promises that only for
  /// pages that were dirty when it began.
  @Test func syncDoesNotCoverAWriteMadeWhileItRuns() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try directory.synchronize()
    try write("one", to: file)
    duringTheNextCall { try self.write("two", to: file) }
    try file.synchronize(.data)
    #expect(possible("f") == ["one", "two"])
    duringTheNextCall { try file.truncate(to: 1) }
    try file.synchronize(.full)
    #expect(possible("f") == ["two", "t", "t\0\0"])
    try file.synchronize(.full)
    #expect(possible("f") == ["t"])
  }

  /// Regression: the same for names.
  @Test func syncDoesNotCoverANameMadeWhileItRuns() throws {
    let directory = try directory()
    for (name, text) in [("f", "old"), ("t", "new"), ("u", "last")] {
      let file = try directory.createFile(name)
      try write(text, to: file)
      try file.synchronize(.full)
    }
    duringTheNextCall { try directory.rename("t", to: "f") }
    try directory.synchronize()
    #expect(possible("f") == ["old", "new"])
    #expect(possible("t") == ["new", nil])
    #expect(possible("u") == ["last"])
    // Only the second change happens while the sync runs: the first one becomes durable.
    duringTheNextCall { try directory.rename("u", to: "f") }
    try directory.synchronize()
    #expect(possible("f") == ["new", "last"])
    #expect(possible("t") == [nil])
    try directory.synchronize()
    #expect(possible("f") == ["last"])
  }

  @Test func syncThatBeganFirstAndEndsLastTakesNothingBack() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try directory.synchronize()
    try write("one", to: file)
    duringTheNextCall {
      try self.write("two", to: file)
      try file.synchronize(.data)
    }
    try file.synchronize(.data)
    #expect(possible("f") == ["two"])
    duringTheNextCall {
      try directory.remove("f")
      try directory.synchronize()
    }
    try directory.synchronize()
    #expect(possible("f") == [nil])
  }

  @Test func diskLosesNamesOfNewFiles() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try write("new", to: file)
    try file.synchronize(.full)
    #expect(possible("f") == [nil, "new"], "the file was synced, the directory was not")
    try directory.synchronize()
    #expect(possible("f") == ["new"])
  }

  @Test func diskLosesRenames() throws {
    let directory = try directory()
    for (name, text) in [("f", "old"), ("t", "new")] {
      let file = try directory.createFile(name)
      try write(text, to: file)
      try file.synchronize(.full)
    }
    try directory.synchronize()
    try directory.rename("t", to: "f")
    #expect(possible("f") == ["old", "new"])
    #expect(possible("t") == ["new", nil])
    try directory.synchronize()
    #expect(possible("f") == ["new"])
    #expect(possible("t") == [nil])
  }

  @Test func diskLosesRemovals() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try write("old", to: file)
    try file.synchronize(.full)
    try directory.synchronize()
    try directory.remove("f")
    #expect(possible("f") == ["old", nil])
    try directory.synchronize()
    #expect(possible("f") == [nil])
  }

  @Test func diskLosesTruncations() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try write("a long text", to: file)
    try file.synchronize(.full)
    try directory.synchronize()
    try file.truncate(to: 1)
    let cut = "a" + String(repeating: "\0", count: 10)
    #expect(possible("f") == ["a long text", "a", cut], "the page may be torn, and not the length")
    try file.synchronize(.full)
    #expect(possible("f") == ["a"])
  }

  /// The length may survive without the bytes: the bytes are zeros then.
  @Test func diskLosesPagesAndKeepsTheLength() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try file.synchronize(.full)
    try directory.synchronize()
    try write("ab", to: file)
    #expect(possible("f") == ["", "ab", "\0\0"])
  }

  @Test func diskTearsPagesBetweenSectors() throws {
    let directory = try directory()
    let file = try directory.createFile("f")
    try write(String(repeating: "o", count: 4096), to: file)
    try file.synchronize(.full)
    try directory.synchronize()
    try write(String(repeating: "n", count: 4096), to: file)
    let torn = (0..<64).compactMap { self.file("f", after: .sectors(seed: $0)) }
      .filter { Set($0) == ["o", "n"] }
    #expect(!torn.isEmpty)
    for text in torn {
      for start in stride(from: 0, to: 4096, by: 512) {
        let sector = text.dropFirst(start).prefix(512)
        #expect(Set(sector).count == 1, "a sector is whole")
      }
    }
  }

  /// Writes to a file on a disk that drops the bytes that the next sync should write.
  private func writeInVain(_ text: String, over old: String) throws -> any StorageFile {
    try disk.createDirectory("d")
    let faulty = FaultStorage(disk)
    let directory = try #require(try faulty.openDirectory("d"))
    let file = try directory.createFile("f")
    try write(old, to: file)
    try file.synchronize(.full)
    try directory.synchronize()
    try write(text, to: file)
    faulty.setScript { event in
      event.operation == .synchronizeData ? .dropUnsynced(.ioError) : nil
    }
    #expect(throws: StorageError.self) { try file.synchronize(.data) }
    faulty.setScript(nil)
    try file.synchronize(.data)
    return file
  }

  /// Linux does this: the sync fails once, the next one succeeds, and the bytes are lost after a
  /// crash.
  @Test func failedSyncCanDropItsPages() throws {
    let file = try writeInVain("new", over: "old")
    #expect(self.file("f", after: .nothing) == "old")
    #expect(self.file("f", after: .everything) == "new", "the bytes are in the cache nevertheless")
    // The same bytes, written again, are dirty again.
    try write("new", to: file)
    try file.synchronize(.data)
    #expect(self.file("f", after: .nothing) == "new")
  }

  /// ext4 does this: blocks that never held data stay unwritten once a sync of them has failed.
  @Test func blocksWhoseFirstSyncFailedStayUnwritten() throws {
    let file = try writeInVain("new", over: "")
    try write("new", to: file)
    try file.synchronize(.full)
    #expect(
      possible("f") == ["new", "\0\0\0"], "the bytes survive a kill, and not a power failure")
    #expect(self.file("f", after: .nothing) == "\0\0\0")
    let medium = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 4096)
    defer { medium.deallocate() }
    #expect(try file.readMedium(into: medium, at: 0) == 3)
    #expect(medium.prefix(3).allSatisfy { $0 == 0 }, "a read past the cache shows the loss at once")
    // The next process finds the file unchanged.
    let next = SimulatedDisk(disk.moment())
    let same = try #require(try next.openDirectory("d")?.openFile("f", .readWrite))
    try write("new", to: same)
    try same.synchronize(.full)
    #expect(next.image(.nothing).directories["d"]?["f"] == [0, 0, 0])
    // Blocks that were released are new when they are allocated again.
    try file.truncate(to: 0)
    try write("new", to: file)
    try file.synchronize(.full)
    #expect(possible("f") == ["new"])
  }

  /// Synced files and names do not survive in a directory that was not synced itself.
  @Test func diskLosesDirectories() throws {
    try disk.makeDirectory("d")
    let directory = try #require(try disk.openDirectory("d"))
    let file = try directory.createFile("f")
    try write("new", to: file)
    try file.synchronize(.full)
    try directory.synchronize()
    #expect(disk.image(.nothing).directories["d"] == nil)
    #expect(possible("f") == [nil, "new"])
    let next = SimulatedDisk(disk.moment())
    #expect(
      next.image(.nothing).directories["d"] == nil, "the next process does not change the bytes")
    try next.openDirectory("d")?.synchronizeParent()
    #expect(next.image(.nothing).directories["d"] == ["f": Array("new".utf8)])
    try disk.createDirectory("d")
    #expect(possible("f") == ["new"])
  }

  /// A power failure may keep only the first of several changes of a name.
  @Test func diskLosesTheLaterOfTwoChanges() throws {
    let directory = try directory()
    for (name, text) in [("f", "one"), ("g", "two"), ("h", "three")] {
      let file = try directory.createFile(name)
      try write(text, to: file)
      try file.synchronize(.full)
    }
    try directory.synchronize()
    try directory.rename("g", to: "f")
    try directory.rename("h", to: "f")
    #expect(possible("f") == ["one", "two", "three"])
    #expect(possible("g") == ["two", nil])
    let killed = SimulatedDisk(disk.moment()).moment().images(subsets: 64, torn: 0, seed: 1)
    #expect(Set(killed.map { $0.image.directories["d"]?["f"]?.count }) == [3, 5])
    try directory.synchronize()
    #expect(possible("f") == ["three"])
  }

  @Test func diskHasTheConfiguredCapacity() throws {
    let small = SimulatedDisk(capacityBytes: 8192)
    try small.createDirectory("d")
    let file = try #require(try small.openDirectory("d")).createFile("f")
    try file.allocate(from: 0, to: 8192)
    #expect {
      try file.allocate(from: 8192, to: 8193)
    } throws: {
      ($0 as? StorageError)?.errno == .noSpace
    }
  }

  @Test func callTakesTheSimulatedLatency() throws {
    let slow = SimulatedDisk(latency: SimulatedLatency(microseconds: 20_000, seed: 1))
    let took = try ContinuousClock().measure { try slow.createDirectory("d") }
    #expect(took >= .microseconds(10_000))
  }

  /// With few changes, every combination is enumerated, each once.
  @Test func allSubsetsOfFewChangesAreEnumerated() throws {
    let directory = try directory()
    for name in ["a", "b", "c"] { _ = try directory.createFile(name) }
    let images = disk.moment().images(subsets: 50, torn: 0, seed: 1).dropFirst(2)
    let sets = images.map { Set(($0.image.directories["d"] ?? [:]).keys) }
    #expect(sets.count == 8)
    #expect(Set(sets).count == 8)
    for (policy, image) in images { #expect(disk.image(policy) == image, "\(policy)") }
  }
}
