import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// Contents of a file of several pages after a power failure; the file is written by calls and
/// through a mapping.
@Suite struct UnsyncedPagesTests {
  private static let pageBytes = 4096

  /// A disk with one file of `pages` pages, all of them old and durable.
  private struct Ground {
    let disk = SimulatedDisk()
    let directory: any StorageDirectory
    let file: any StorageFile
    let mapping: any FileMapping

    init(pages: Int) throws {
      try disk.createDirectory("d")
      directory = try #require(try disk.openDirectory("d"))
      file = try directory.createFile("f")
      let length = pages * pageBytes
      try file.allocate(from: 0, to: UInt64(length))
      mapping = try file.map(lengthBytes: length, .readWrite)
      mapping.base.initializeMemory(as: UInt8.self, repeating: old, count: length)
      try file.synchronize(.full)
      try directory.synchronize()
    }

    /// Overwrites whole pages, by calls or through the mapping.
    func renew(_ pages: Range<Int>, isMapped: Bool) throws {
      let bytes = [UInt8](repeating: new, count: pages.count * pageBytes)
      let start = pages.lowerBound * pageBytes
      try bytes.withUnsafeBytes { source in
        if isMapped {
          mapping.base.advanced(by: start).copyMemory(
            from: source.baseAddress!, byteCount: source.count)
        } else {
          try file.write(source, at: UInt64(start))
        }
      }
    }

    func bytes(after policy: CrashPolicy) throws -> [UInt8] {
      try #require(disk.image(policy).directories["d"]?["f"])
    }
  }

  private static let old = UInt8(ascii: "o")
  private static let new = UInt8(ascii: "n")

  /// Returns which pages are new; nil for a torn page.
  private func pages(_ bytes: [UInt8], of partBytes: Int = pageBytes) -> [Bool?] {
    stride(from: 0, to: bytes.count, by: partBytes).map { start in
      switch Set(bytes[start..<min(start + partBytes, bytes.count)]) {
      case [Self.new]: true
      case [Self.old]: false
      default: nil
      }
    }
  }

  /// A mapping is the same memory: its writes reach only the cache, until the file is synced.
  @Test(arguments: [true, false])
  func unsyncedPagesAreLost(isMapped: Bool) throws {
    let ground = try Ground(pages: 2)
    try ground.renew(0..<2, isMapped: isMapped)
    #expect(try pages(ground.bytes(after: .nothing)) == [false, false])
    #expect(try pages(ground.bytes(after: .everything)) == [true, true])
    try ground.file.synchronize(.data)
    #expect(try pages(ground.bytes(after: .nothing)) == [true, true])
  }

  @Test(arguments: [true, false])
  func pagesAreLostIndependently(isMapped: Bool) throws {
    let ground = try Ground(pages: 2)
    try ground.renew(0..<2, isMapped: isMapped)
    let images = ground.disk.moment().images(subsets: 50, torn: 0, seed: 1)
    let found = Set(try images.map { pages(try #require($0.image.directories["d"]?["f"])) })
    #expect(found == [[false, false], [false, true], [true, false], [true, true]])
  }

  /// One write across the boundary of a page affects two pages: the first may survive without the
  /// second.
  @Test(arguments: [true, false])
  func aWriteOverABoundaryIsCutInTwo(isMapped: Bool) throws {
    let ground = try Ground(pages: 3)
    try ground.renew(0..<3, isMapped: isMapped)
    let drawn = Set(try (0..<100).map { pages(try ground.bytes(after: .pages(seed: $0))) })
    #expect(drawn.count == 8, "any of the pages: \(drawn)")
    #expect(!drawn.contains { $0.contains(nil) }, "a page is whole")
  }

  @Test(arguments: [true, false])
  func aTornPageIsTornBetweenSectors(isMapped: Bool) throws {
    let ground = try Ground(pages: 1)
    try ground.renew(0..<1, isMapped: isMapped)
    let images = try (0..<200).map { try ground.bytes(after: .sectors(seed: $0)) }
    let torn = Set(images.filter { pages($0) == [nil] })
    #expect(torn.count > 20, "many ways of tearing the page")
    for bytes in torn { #expect(!pages(bytes, of: 512).contains(nil), "a sector is whole") }
    for sector in 0..<8 {
      #expect(torn.contains { pages($0, of: 512)[sector] == true })
      #expect(torn.contains { pages($0, of: 512)[sector] == false })
    }
  }

  @Test func seedDeterminesTheImage() throws {
    let ground = try Ground(pages: 12)
    try ground.renew(0..<12, isMapped: true)
    for make in [CrashPolicy.pages(seed:), CrashPolicy.sectors(seed:)] {
      let images = (0..<20).map { ground.disk.image(make($0)) }
      #expect((0..<20).map { ground.disk.image(make($0)) } == images)
      #expect(Set(images).count > 15, "twelve pages have 4096 images")
    }
  }

  /// The length and the bytes of a file that grew are lost independently.
  @Test(arguments: [true, false])
  func anAllocationThatIsNotSyncedIsLost(isSynced: Bool) throws {
    let disk = SimulatedDisk()
    try disk.createDirectory("d")
    let directory = try #require(try disk.openDirectory("d"))
    let file = try directory.createFile("f")
    try file.allocate(from: 0, to: 4096)
    try file.synchronize(.full)
    try directory.synchronize()
    try file.allocate(from: 4096, to: 8192)
    if isSynced { try file.synchronize(.full) }
    let lengths = Set(
      disk.moment().images(subsets: 8, torn: 0, seed: 1).map {
        $0.image.directories["d"]?["f"]?.count
      })
    #expect(lengths == (isSynced ? [8192] : [4096, 8192]))
  }

  /// Linux does this: the sync fails, the next one succeeds, and one page of several is lost for
  /// good.
  @Test(arguments: [true, false])
  func failedSyncDropsOnlyItsPages(isMapped: Bool) throws {
    let ground = try Ground(pages: 3)
    let faulty = FaultStorage(ground.disk)
    let file = try #require(try faulty.openDirectory("d")?.openFile("f", .readWrite))
    faulty.setScript { event in
      event.operation == .synchronizeData ? .dropUnsynced(.ioError) : nil
    }
    try ground.renew(0..<1, isMapped: isMapped)
    #expect(throws: StorageError.self) { try file.synchronize(.data) }
    faulty.setScript(nil)
    try ground.renew(2..<3, isMapped: isMapped)
    try file.synchronize(.data)
    #expect(
      try pages(ground.bytes(after: .everything)) == [true, false, true], "the cache holds the page"
    )
    #expect(try pages(ground.bytes(after: .nothing)) == [false, false, true])
    try file.synchronize(.full)
    #expect(
      try pages(ground.bytes(after: .nothing)) == [false, false, true],
      "the page is not written again")
  }

  /// When a process dies and the next one continues, the same bytes are on the disk, and the same
  /// bytes are not.
  @Test func nextProcessFindsTheCacheUnchanged() throws {
    let ground = try Ground(pages: 2)
    try ground.renew(0..<1, isMapped: true)
    try ground.file.synchronize(.data)
    try ground.renew(1..<2, isMapped: true)
    let before = ground.disk.moment()
    #expect(pages(before.image(.nothing).directories["d"]?["f"] ?? []) == [true, false])
    #expect(pages(before.image(.everything).directories["d"]?["f"] ?? []) == [true, true])
    try ground.renew(0..<2, isMapped: false)
    #expect(
      pages(before.image(.nothing).directories["d"]?["f"] ?? []) == [true, false],
      "a moment does not change")
  }

  /// Every call that changes the disk waits.
  @Test func everyCallTakesTheSimulatedLatency() throws {
    let disk = SimulatedDisk(latency: SimulatedLatency(microseconds: 4000, seed: 3))
    let clock = ContinuousClock()
    func expectWait(_ name: Comment, _ call: () throws -> Void) throws {
      // The least latency is half of the greatest.
      #expect(try clock.measure(call) >= .microseconds(2000), name)
    }
    try expectWait("create directory") { try disk.createDirectory("d") }
    let directory = try #require(try disk.openDirectory("d"))
    try expectWait("create") { _ = try directory.createFile("f") }
    let file = try #require(try directory.openFile("f", .readWrite))
    try expectWait("allocate") { try file.allocate(from: 0, to: 4096) }
    try expectWait("write") { try [1, 2].withUnsafeBytes { try file.write($0, at: 0) } }
    try expectWait("truncate") { try file.truncate(to: 1) }
    try expectWait("sync") { try file.synchronize(.full) }
    try expectWait("sync of the directory") { try directory.synchronize() }
    try expectWait("rename") { try directory.rename("f", to: "g") }
    try expectWait("remove") { try directory.remove("g") }
  }
}
