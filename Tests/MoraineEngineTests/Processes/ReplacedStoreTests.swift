import Foundation
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

@testable import MoraineEngine

/// Files of an open store are deleted, moved or replaced.
@Suite(.timeLimit(.minutes(10))) struct ReplacedStoreTests {
  enum Mishap: CaseIterable, Sendable {
    case directoryDeleted, directoryMoved, directoryEmptied, directoryRenamedOver
    case segmentDeleted, segmentMovedAway, manifestDeleted, manifestReplaced
    case lockDeleted, backupCopiedOver
    case pageDeleted, writerDeleted, compactorDeleted

    /// The file of a shared store that the mishap deletes.
    var sharedFile: String? {
      switch self {
      case .pageDeleted: FileName.sharedPage
      case .writerDeleted: FileName.writerLock
      case .compactorDeleted: FileName.compactorLock
      default: nil
      }
    }
  }

  /// A store with a backup beside it, and a store of another identity.
  private struct Ground {
    let directory: TestDirectory
    let store: Store
    var backup: URL { directory.url.appendingPathComponent("backup") }
    var other: URL { directory.url.appendingPathComponent("other") }
    let elsewhere: URL
    let configuration: Store.Configuration

    init(_ configuration: Store.Configuration) async throws {
      self.configuration = configuration
      directory = try TestDirectory()
      elsewhere = directory.url.appendingPathComponent("elsewhere")
      try await withStore(at: FilePath(directory.url.path).appending("other")) {
        try await $0.set([7], forKey: "other")
      }
      store = try Store(at: directory.path, configuration: configuration)
      try await store.set([1], forKey: "early", durability: .sync)
      try await store.backup(to: FilePath(directory.url.path).appending("backup"))
      try await store.set([2], forKey: "late", durability: .sync)
    }

    private func file(_ name: String) -> URL { directory.store.appendingPathComponent(name) }

    func strike(_ mishap: Mishap) throws {
      let files = FileManager.default
      switch mishap {
      case .directoryDeleted: try files.removeItem(at: directory.store)
      case .directoryMoved: try files.moveItem(at: directory.store, to: elsewhere)
      case .directoryEmptied:
        try files.moveItem(at: directory.store, to: elsewhere)
        try files.createDirectory(at: directory.store, withIntermediateDirectories: false)
      case .directoryRenamedOver:
        try files.removeItem(at: directory.store)
        try files.moveItem(at: other, to: directory.store)
      case .segmentDeleted: try files.removeItem(at: try #require(directory.segments().last))
      case .segmentMovedAway:
        try files.moveItem(at: try #require(directory.segments().last), to: elsewhere)
      case .manifestDeleted: try files.removeItem(at: file("MANIFEST"))
      case .manifestReplaced:
        try files.removeItem(at: file("MANIFEST"))
        try files.copyItem(at: other.appendingPathComponent("MANIFEST"), to: file("MANIFEST"))
      case .lockDeleted: try files.removeItem(at: file("LOCK"))
      case .pageDeleted, .writerDeleted, .compactorDeleted:
        try files.removeItem(at: file(try #require(mishap.sharedFile)))
      case .backupCopiedOver:
        for name in try files.contentsOfDirectory(atPath: backup.path).sorted() {
          // Copies as `cp` does, into the existing file. The bytes come before the truncation:
          // reading a mapped file that was truncated raises SIGBUS.
          let bytes = try Data(contentsOf: backup.appendingPathComponent(name))
          if !files.fileExists(atPath: file(name).path) {
            _ = files.createFile(atPath: file(name).path, contents: nil)
          }
          let handle = try FileHandle(forWritingTo: file(name))
          try handle.write(contentsOf: bytes)
          try handle.truncate(atOffset: UInt64(bytes.count))
          try handle.close()
        }
      }
    }

    /// Returns every file at the store's path, with its bytes; nothing when the directory does not
    /// exist.
    func picture() throws -> [String: Data] {
      guard FileManager.default.fileExists(atPath: directory.store.path) else { return [:] }
      var result: [String: Data] = [:]
      for name in try directory.names() { result[name] = try Data(contentsOf: file(name)) }
      return result
    }
  }

  private static let configurations: [Store.Configuration] = [
    .testing(), .testing(ioMode: .positional), .shared(), .shared(.positional),
  ]

  /// Returns the mishaps that can happen to the stores of these configurations.
  private static func cases(_ numbers: Range<Int>) -> [(Mishap, Int)] {
    numbers.flatMap { number in
      Mishap.allCases
        .filter { $0.sharedFile == nil || configurations[number].sharing == .shared }
        .map { ($0, number) }
    }
  }

  /// Bytes that no name reaches are not durable, even when they were synced.
  @Test(arguments: cases(0..<4))
  func noSyncIsAcknowledgedAfterAReplacement(_ mishap: Mishap, _ number: Int) async throws {
    let ground = try await Ground(Self.configurations[number])
    let store = ground.store
    let changes = store.changes()
    try ground.strike(mishap)
    // Not before: halfway through a copy the log looks damaged, and the reason is not known yet.
    let feed = Task { for try await _ in changes {} }
    let before = try ground.picture()
    let error = await #expect(throws: StoreError.self) {
      try await store.set([3], forKey: "lost", durability: .sync)
    }
    #expect(error?.code == .storeReplaced, "\(String(describing: error))")
    let second = await #expect(throws: StoreError.self) { try await store.set([4], forKey: "b") }
    #expect(second?.code == .storeReplaced)
    #expect(await store.waitUntilPoisoned()?.code == .storeReplaced)
    let ended = await #expect(throws: StoreError.self) { try await feed.value }
    #expect(ended?.code == .storeReplaced)
    if ground.configuration.ioMode == .mapped {
      #expect(try await store.value(forKey: "early") == [1], "mapped values are still read")
    }
    let closing = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(closing?.code == .storeReplaced)
    let after = try ground.picture()
    #expect(after.keys.sorted() == before.keys.sorted(), "nothing is written to the directory")
    #expect(after["MANIFEST"] == before["MANIFEST"])
  }

  /// Regression: the inode number of a deleted segment was used for the next file, and the store,
  /// which had closed its descriptor, took that file for its own.
  @Test func aFileInThePlaceOfAParkedSegmentIsNotWrittenTo() async {
    await #expect(processExitsWith: .success) {
      let ground = try await Ground(.testing(ioMode: .positional))
      let segment = try #require(ground.directory.segments().last)
      DescriptorPool.current.parkAll()
      let bytes = try Data(contentsOf: segment).prefix(100)
      try FileManager.default.removeItem(at: segment)
      #expect(FileManager.default.createFile(atPath: segment.path, contents: bytes))
      let error = await #expect(throws: StoreError.self) {
        try await ground.store.set([3], forKey: "lost", durability: .sync)
      }
      #expect(error?.code == .storeReplaced)
      #expect(try Data(contentsOf: segment) == bytes)
    }
  }

  /// No call is made, and yet the store detects the replacement.
  @Test(arguments: cases(0..<1) + cases(2..<3))
  func idleStoreDetectsItsReplacement(_ mishap: Mishap, _ number: Int) async throws {
    let ground = try await Ground(Self.configurations[number])
    let store = ground.store
    let values = Task { for try await _ in store.values(forKey: "early") {} }
    try ground.strike(mishap)
    #expect(await store.waitUntilPoisoned()?.code == .storeReplaced)
    let ended = await #expect(throws: StoreError.self) { try await values.value }
    #expect(ended?.code == .storeReplaced)
    await #expect(throws: StoreError.self) { try await store.close() }
  }

  /// Regression: in a store that is not shared, a sync of nothing returned.
  @Test(arguments: [true, false])
  func syncOfAReplacedStoreThrowsAlsoWhenAllIsDurable(_ isShared: Bool) async throws {
    let ground = try await Ground(isShared ? .shared() : .testing())
    try await ground.store.sync()
    try ground.strike(.directoryMoved)
    #expect(await ground.store.waitUntilPoisoned()?.code == .storeReplaced)
    let error = await #expect(throws: StoreError.self) { try await ground.store.sync() }
    #expect(error?.code == .storeReplaced)
    await #expect(throws: StoreError.self) { try await ground.store.close() }
  }

  /// Regression: `close` renamed its own manifest over that of the restored files, and reported
  /// success.
  @Test(arguments: [true, false])
  func closingDoesNotChangeRestoredFiles(_ isShared: Bool) async throws {
    let ground = try await Ground(isShared ? .shared() : .testing())
    try FileManager.default.removeItem(at: ground.backup)
    // Copies a store that was closed in order, as a backup program does.
    try await ground.store.close()
    try FileManager.default.copyItem(at: ground.directory.store, to: ground.backup)
    let store = try Store(at: ground.directory.path, configuration: ground.configuration)
    try await store.set([9], forKey: "after", durability: .sync)
    // The directory itself stays.
    for name in try ground.directory.names() {
      try FileManager.default.removeItem(at: ground.directory.store.appendingPathComponent(name))
    }
    try ground.strike(.backupCopiedOver)
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.code == .storeReplaced)
    try await withStore(at: ground.directory.path) { store in
      let (late, after) = (
        try await store.value(forKey: "late"), try await store.value(forKey: "after")
      )
      #expect(late == [2] && after == nil)
      let isSound = try await store.verify().isSound
      #expect(isSound)
    }
  }

  /// Regression: a shared store that read the restored files again watched those files from then
  /// on, and acknowledged a sync before it reported that the store was replaced.
  @Test func filesOfAnotherStoreAreNeverTakenForFilesOfTheStore() async throws {
    let memory = MemoryStorage()
    let store = try Store(on: memory, at: "store", configuration: .shared())
    try await store.set([1], forKey: "a", durability: .sync)
    let another = try Store(on: memory, at: "other", configuration: .testing())
    try await another.set([7], forKey: "other")
    try await another.close()
    let (directory, other) = (
      try #require(try memory.openDirectory("store")),
      try #require(try memory.openDirectory("other"))
    )
    try directory.remove(Manifest.fileName)
    let manifest = try #require(try ManifestFile.readPresent(other))
    store.pipeline.watchOver(StorePresence(other, common: [], manifest: manifest, isShared: true))
    #expect(await store.waitUntilPoisoned()?.code == .storeReplaced)
    let error = #expect(throws: StoreError.self) { try store.pipeline.checkPresence() }
    #expect(error?.code == .storeReplaced, "the names of this store are checked")
    await #expect(throws: StoreError.self) { try await store.close() }
  }

  @Test func olderManifestIsRefusedWhenTheStoreIsReadAgain() async throws {
    let memory = MemoryStorage()
    let store = try Store(
      on: memory, at: "store", configuration: .shared(segmentSizeBytes: 1000))
    try await store.set([1], forKey: "a", durability: .sync)
    let directory = try #require(try memory.openDirectory("store"))
    let older = try #require(try ManifestFile.readPresent(directory))
    for number in 0..<40 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"), durability: .sync)
    }
    try directory.remove(Manifest.fileName)
    let file = try directory.createFile(Manifest.fileName)
    try older.encoded().withBytes { (bytes) throws(StorageError) in try file.write(bytes, at: 0) }
    store.pipeline.watchOver(StorePresence(directory, common: [], manifest: older, isShared: true))
    let error = #expect(throws: StoreError.self) { try store.pipeline.checkPresence() }
    #expect(error?.code == .storeReplaced)
    await #expect(throws: StoreError.self) { try await store.close() }
  }

  /// Regression: a process that was stopped between reading the manifest and looking at its segment
  /// took the segment for deleted, which another process had sealed and compacted since.
  @Test func segmentThatIsCompactedDuringACheckIsNoReplacement() async throws {
    let pair = try await SharedPair()
    let (store, name, gate) = (pair.store, pair.file.name, Gate())
    pair.storage.setScript { event in
      event.operation == .stamp && event.file == name ? .hang(gate) : nil
    }
    let checking = Task { try await pair.check() }
    await gate.arrival()
    try await pair.compactTheSegment()
    gate.open()
    try await checking.value
    try await store.set([2], forKey: "b", durability: .sync)
    try await store.close()
    try await pair.other.close()
  }

  /// Regression: a process that could not read the manifest of another process concluded from the
  /// last one that it had read.
  @Test func manifestThatCannotBeReadIsNoReplacement() async throws {
    let pair = try await SharedPair()
    pair.storage.setScript { event in
      event.operation == .stamp && event.file == Manifest.fileName ? .fail(.ioError) : nil
    }
    try await pair.compactTheSegment()
    try await pair.check()
    pair.storage.setScript(nil)
    try await pair.store.set([2], forKey: "b", durability: .sync)
    try await pair.store.close()
    try await pair.other.close()
  }

  /// A store that has written to a segment, and another opening of that store.
  private struct SharedPair: Sendable {
    let memory = MemoryStorage()
    let storage: FaultStorage
    let store: Store
    let other: Store
    /// The segment that the store has written to.
    let file: any StorageFile

    init() async throws {
      storage = FaultStorage(memory)
      let configuration = Store.Configuration.shared(segmentSizeBytes: 1000)
      store = try Store(on: storage, at: "store", configuration: configuration)
      other = try Store(on: memory, at: "store", configuration: configuration)
      try await store.set([1], forKey: "a", durability: .sync)
      let active = store.pipeline.monitor.withLock { $0.file }
      file = try #require(active)
    }

    /// Checks the names, as after a sync.
    func check() async throws {
      try await store.runBlocking { [store, file] () throws(StoreError) in
        try store.pipeline.checkPresence(of: file, syncedTo: 1)
      }
    }

    func compactTheSegment() async throws {
      for number in 0..<40 { try await other.set([UInt8](0..<50), forKey: Key("\(number % 4)")) }
      try await other.compact()
      try await other.waitUntilIdle()
      let directory = try #require(try memory.openDirectory("store"))
      #expect(try directory.extent(of: file.name) == nil, "the segment is compacted")
    }
  }

  /// Regression: users delete lock files. A second writer could open the store, and its synced
  /// writes were lost.
  @Test func deletingTheLockFileLetsNoSecondWriterIn() async throws {
    let ground = try await Ground(.testing())
    try ground.strike(.lockDeleted)
    let error = #expect(throws: StoreError.self) { try Store(at: ground.directory.path) }
    #expect(error?.code == .locked)
    await #expect(throws: StoreError.self) { try await ground.store.close() }
    try await withStore(at: ground.directory.path) { store in
      let count = try await store.count()
      #expect(count == 2)
    }
  }

  /// The operations of the store itself, of the other processes of a shared store, and of tools
  /// that read or touch files. A process with a new `WRITER` file would append at the same time as
  /// the processes that have the old file open. When those processes have closed the store, the
  /// next opening repairs it.
  @Test(arguments: [Mishap.writerDeleted, .compactorDeleted])
  func aDeletedLockFileLetsNoSecondWriterIntoASharedStore(_ mishap: Mishap) async throws {
    let ground = try await Ground(.shared())
    try ground.strike(mishap)
    let error = #expect(throws: StoreError.self) {
      try Store(at: ground.directory.path, configuration: ground.configuration)
    }
    #expect(error?.code == .storeReplaced && error?.file == mishap.sharedFile)
    await #expect(throws: StoreError.self) { try await ground.store.close() }
    let next = try Store(at: ground.directory.path, configuration: ground.configuration)
    #expect(try await next.value(forKey: "late") == [2])
    try await next.set([3], forKey: "next", durability: .sync)
    try await next.close()
  }

  /// A reader that trusted another `WRITER` file would wait for no writer.
  @Test(arguments: [Mishap.writerDeleted, .compactorDeleted])
  func aReplacedLockFileLetsNoReaderIntoASharedStore(_ mishap: Mishap) async throws {
    let ground = try await Ground(.shared())
    try ground.strike(mishap)
    let name = try #require(mishap.sharedFile)
    let url = ground.directory.store.appendingPathComponent(name)
    #expect(FileManager.default.createFile(atPath: url.path, contents: nil))
    var configuration = ground.configuration
    configuration.isReadOnly = true
    let readOnly = configuration
    let error = #expect(throws: StoreError.self) {
      try Store(at: ground.directory.path, configuration: readOnly)
    }
    #expect(error?.code == .storeReplaced && error?.file == name)
    await #expect(throws: StoreError.self) { try await ground.store.close() }
    let reader = try Store(at: ground.directory.path, configuration: readOnly)
    #expect(try await reader.value(forKey: "late") == [2], "no process shares the store any more")
    try await reader.close()
  }

  @Test(arguments: configurations.indices)
  func ordinaryWorkRaisesNoAlarm(_ number: Int) async throws {
    var configuration = Self.configurations[number]
    configuration.segmentSizeBytes = 2000
    configuration.checkpointFloorBytes = 0
    let ground = try await Ground(configuration)
    var stores = [ground.store]
    if configuration.sharing == .shared {
      stores.append(try Store(at: ground.directory.path, configuration: configuration))
    }
    for step in 0..<200 {
      let store = stores[step % stores.count]
      let durability: Durability = step % 7 == 0 ? .sync : .none
      try await store.set([UInt8](0..<50), forKey: Key("\(step % 40)"), durability: durability)
      if step % 31 == 0 { try await store.compact() }
      if step % 50 == 0 {
        try await store.backup(to: FilePath(ground.backup.path))
        for name in try ground.directory.names() {
          let path = ground.directory.store.appendingPathComponent(name).path
          do {
            try FileManager.default.setAttributes(
              [.posixPermissions: 0o640, .modificationDate: Date()], ofItemAtPath: path)
          } catch CocoaError.fileNoSuchFile {
            // The store has removed the file since.
          }
        }
      }
      for store in stores {
        try await store.runBlocking { () throws(StoreError) in try store.pipeline.checkPresence() }
      }
    }
    for store in stores { try await store.close() }
    let isSound = try await withStore(at: ground.directory.path) { try await $0.verify().isSound }
    #expect(isSound)
  }

  /// A failed identity check gives no information about the files.
  @Test func failedIdentityCheckStopsNothing() async throws {
    let storage = FaultStorage(MemoryStorage())
    let store = try Store(on: storage, at: "store", configuration: .testing(segmentSizeBytes: 1000))
    try await store.set([1], forKey: "a", durability: .sync)
    storage.setScript { [.stamp, .isInPlace].contains($0.operation) ? .fail(.ioError) : nil }
    for number in 0..<40 {
      try await store.set([UInt8](0..<50), forKey: Key("\(number)"), durability: .sync)
    }
    try await store.close()
    storage.setScript(nil)
    let again = try Store(on: storage, at: "store", configuration: .testing())
    #expect(try await again.count() == 41)
    try await again.close()
  }

  /// Deletes, moves or replaces a file at a random moment of a random workload, on the simulated
  /// disk: nothing is acknowledged as durable afterwards, and everything acknowledged before is in
  /// the moved files.
  @Test(arguments: 0..<60)
  func writesFailAfterAFileIsReplaced(seed: Int) async throws {
    var generator = SeededGenerator(seed: UInt64(seed))
    let disk = SimulatedDisk()
    let modes: [Store.Configuration.IOMode] = [.mapped, .positional]
    let store = try disk.openStore(
      configuration: .testing(
        segmentSizeBytes: 600, ioMode: modes[seed % 2], durability: .sync))
    let steps = Int.random(in: 1...30, using: &generator)
    for step in 0..<steps {
      try await store.set([UInt8](0..<40), forKey: Key("\(step % 9)"))
      if step % 11 == 10 { try await store.compact() }
    }
    // After a compaction no segment is open.
    try await store.set([UInt8](0..<40), forKey: "last")
    let directory = try #require(try disk.openDirectory("store"))
    let segments = try directory.entries().map(\.name).filter { $0.hasSuffix(".segment") }
    let names = ["LOCK", "MANIFEST", try #require(segments.max())]
    let name = try #require(names.randomElement(using: &generator))
    if Bool.random(using: &generator) {
      try directory.remove(name)
    } else {
      try directory.rename(name, to: "away")
      _ = try directory.createFile(name)
    }
    for step in 0..<20 {
      let error = await #expect(throws: StoreError.self, "seed \(seed), step \(step), \(name)") {
        try await store.set([1], forKey: Key("\(step)"))
      }
      #expect(error?.code == .storeReplaced, "seed \(seed), \(name)")
    }
    let error = await #expect(throws: StoreError.self) { try await store.close() }
    #expect(error?.code == .storeReplaced)
  }

  /// The file is moved away and back while nothing is published: its name leads to the same file as
  /// before.
  @Test func fileThatIsMovedAwayAndBackIsNoReplacement() async throws {
    let storage = MemoryStorage()
    let store = try Store(on: storage, at: "store", configuration: .testing())
    try await store.set([1], forKey: "a", durability: .sync)
    let directory = try #require(try storage.openDirectory("store"))
    for name in ["LOCK", "MANIFEST", "0000000001.segment"] {
      try directory.rename(name, to: "away")
      try directory.rename("away", to: name)
      try await store.set([2], forKey: "a", durability: .sync)
    }
    try storage.renameDirectory("store", to: "elsewhere")
    try storage.renameDirectory("elsewhere", to: "store")
    try await store.set([3], forKey: "a", durability: .sync)
    try await store.close()
  }
}

/// The process changes its current directory, as `daemon` does.
@Suite struct CurrentDirectoryTests {
  /// Regression: the store's relative path was resolved again at the next rotation, and led
  /// elsewhere.
  @Test(.timeLimit(.minutes(10))) func changingTheCurrentDirectoryAfterOpeningHasNoEffect()
    async throws
  {
    await #expect(processExitsWith: .success) {
      let directory = try TestDirectory()
      try #require(chdir(directory.url.path) == 0)
      let configuration = Store.Configuration.testing(segmentSizeBytes: 1000)
      let store = try Store(at: "store", configuration: configuration)
      let unmade = try Store(at: "./later", configuration: configuration)
      try #require(chdir("/") == 0)
      for number in 0..<60 {
        try await store.set([UInt8](0..<50), forKey: Key("\(number)"), durability: .sync)
      }
      try await unmade.set([1], forKey: "a")
      try await store.compact()
      try await unmade.close()
      try await store.close()
      try await withStore(at: directory.path) { store in
        let count = try await store.count()
        #expect(count == 60)
      }
      #expect(FileManager.default.fileExists(atPath: directory.url.path + "/later/MANIFEST"))
    }
  }
}

/// File systems in user space refuse shared mappings with ENODEV.
@Suite struct RefusedMappingTests {
  @Test(arguments: [
    Errno.operationNotSupportedByDevice, .notSupported, .invalidArgument, .noMemory,
  ])
  func aStoreWithoutMappingsWorks(_ refusal: Errno) async throws {
    let storage = FaultStorage(MemoryStorage())
    storage.setScript { $0.operation == .map ? .fail(refusal) : nil }
    let configuration = Store.Configuration.testing(segmentSizeBytes: 1000)
    for life in 0..<3 {
      let store = try Store(on: storage, at: "store", configuration: configuration)
      for number in 0..<40 {
        try await store.set([UInt8](0..<50), forKey: Key("\(life) \(number)"), durability: .sync)
      }
      try await store.compact()
      #expect(try await store.verify().isSound)
      #expect(try await store.count() == 40 * (life + 1))
      try await store.close()
    }
  }
}
