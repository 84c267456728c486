import MoraineArchive
import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Objects in a directory after a power failure.
@Suite("Objects in a directory, after a crash") struct DirectoryObjectCrashTests {
  /// A request to try, in a store with the object `old/a`.
  enum Request: CaseIterable {
    case create, createInNewFolder, createTaken, put, putNew, putInNewFolder, remove

    var name: String {
      switch self {
      case .create, .putNew: "old/b"
      case .createInNewFolder, .putInNewFolder: "new/deep/b"
      case .createTaken, .put, .remove: "old/a"
      }
    }

    /// The object before and after the request.
    var before: [UInt8]? { name == "old/a" ? oldBytes : nil }
    var after: [UInt8]? {
      switch self {
      case .remove: nil
      case .createTaken: oldBytes
      default: newBytes
      }
    }

    func run(on objects: DirectoryObjectStore) async throws(ObjectStoreError) {
      let body = ObjectBody(newBytes, inPiecesOf: [5000, 3000])
      switch self {
      case .create, .createInNewFolder, .createTaken: _ = try await objects.create(name, body)
      case .put, .putNew, .putInNewFolder: try await objects.put(name, body)
      case .remove: try await objects.remove([name])
      }
    }
  }

  private static let oldBytes = randomBytes(5000, seed: 1)
  private static let newBytes = randomBytes(12_345, seed: 2)

  /// A crash: the disk at a moment, before or after the answer of the request.
  private struct Crash {
    let number: Int
    let moment: DiskMoment
    let isAnswered: Bool
  }

  /// Runs a request, and takes a moment before each change of the disk and after the answer.
  private static func crashes(
    of request: Request, _ prepare: (SimulatedDisk) -> Void = { _ in }
  ) async throws -> [Crash] {
    let disk = SimulatedDisk()
    let objects = DirectoryObjectStore(path: "root", on: disk)
    try await objects.createRoot()
    try await objects.put("old/a", ObjectBody(oldBytes))
    prepare(disk)
    let moments = Mutex<[DiskMoment]>([])
    disk.setObserver { moments.withLock { $0.append(disk.moment()) } }
    try await request.run(on: objects)
    disk.setObserver(nil)
    let during = moments.withLock { $0 }
    return during.enumerated().map { Crash(number: $0, moment: $1, isAnswered: false) }
      + [Crash(number: during.count, moment: disk.moment(), isAnswered: true)]
  }

  /// Returns sentences about images that break a promise.
  private static func violations(_ request: Request, _ crash: Crash) async -> [String] {
    var found: [String] = []
    for (policy, image) in crash.moment.images(subsets: 48, torn: 12, seed: 7) {
      let disk = SimulatedDisk(image)
      let objects = DirectoryObjectStore(path: "root", on: disk)
      func report(_ text: String) {
        found.append("\(request), call \(crash.number), \(policy): \(text)")
      }
      do throws(ObjectStoreError) {
        let bytes = try await objects.get(request.name, nil)
        let isRight =
          bytes == request.after || (!crash.isAnswered && bytes == request.before)
        if !isRight { report("the object has \(bytes?.count ?? -1) bytes") }
        if try await objects.get("old/a", nil) == nil, request != .remove {
          report("old/a is lost")
        }
        let expected = bytes == nil ? [] : [request.name]
        let listed = try await objects.names().filter { $0 == request.name }
        if listed != expected { report("the list shows \(listed)") }
        if temporaryCount(disk) > 0 { report("a temporary file stays after a list") }
        // The request can be repeated.
        try await request.run(on: objects)
        if try await objects.get(request.name, nil) != request.after {
          report("the repeated request has another effect")
        }
      } catch { report("\(error)") }
    }
    return found
  }

  private static func temporaryCount(_ disk: SimulatedDisk) -> Int {
    disk.image(.everything).directories.values.reduce(0) { count, files in
      count + files.keys.count { $0.hasSuffix(".new") }
    }
  }

  @Test(arguments: Request.allCases)
  func objectIsOldOrNewAndWholeAndKeptWhenAnswered(_ request: Request) async throws {
    let crashes = try await Self.crashes(of: request)
    #expect(crashes.count >= (request == .createTaken ? 2 : 3), "no call was seen")
    for crash in crashes {
      for text in await Self.violations(request, crash).prefix(3) { Issue.record("\(text)") }
    }
  }

  /// Without one of the syncs, the test above fails.
  @Test(arguments: [
    (SimulatedDisk.SyncKind.file, Request.create), (.directory, .create),
    (.parent, .createInNewFolder), (.file, .put), (.directory, .put), (.directory, .remove),
  ])
  func missingSyncIsNoticed(_ kind: SimulatedDisk.SyncKind, _ request: Request) async throws {
    var count = 0
    for crash in try await Self.crashes(of: request, { $0.omitSyncs(of: kind) }) {
      count += await Self.violations(request, crash).count
    }
    #expect(count > 0)
  }

  /// A reader must not see an object that a power failure removes.
  @Test func objectThatWasReadSurvives() async throws {
    let disk = SimulatedDisk()
    let objects = DirectoryObjectStore(path: "root", on: disk)
    try await objects.createRoot()
    let root = try #require(try disk.openDirectory("root"))
    // A process that died before its sync of the folder.
    let file = try root.createFile("a")
    try Self.newBytes.withUnsafeBytes { try file.write($0, at: 0) }
    try file.synchronize(.full)
    #expect(disk.image(.nothing).directories["root"]?["a"] == nil)
    #expect(try await objects.get("a", 0..<10) == Array(Self.newBytes[..<10]))
    #expect(disk.image(.nothing).directories["root"]?["a"] == Self.newBytes)
  }

  /// The creator of an existing object may have died before its sync of the folder.
  @Test func objectThatExistsForACreatorSurvives() async throws {
    let disk = SimulatedDisk()
    let objects = DirectoryObjectStore(path: "root", on: disk)
    try await objects.createRoot()
    let file = try #require(try disk.openDirectory("root")).createFile("a")
    try file.synchronize(.full)
    #expect(try await objects.create("a", ObjectBody("x")) == .exists)
    #expect(disk.image(.nothing).directories["root"]?["a"] == [])
  }

  /// The creator of an existing folder may have died before its sync of the folder's parent.
  @Test func objectInAnExistingFolderSurvives() async throws {
    let disk = SimulatedDisk()
    let objects = DirectoryObjectStore(path: "root", on: disk)
    try await objects.createRoot()
    try disk.makeDirectory("root/a")
    #expect(disk.image(.nothing).directories["root/a"] == nil)
    #expect(try await objects.create("a/b", ObjectBody("x")) == .created)
    #expect(disk.image(.nothing).directories["root/a"]?["b"] == Array("x".utf8))
  }

  @Test func rootIsCreatedWholeOrCanBeCreatedAgain() async throws {
    let disk = SimulatedDisk()
    let moments = Mutex<[DiskMoment]>([])
    disk.setObserver { moments.withLock { $0.append(disk.moment()) } }
    try await DirectoryObjectStore(path: "root", on: disk).createRoot()
    disk.setObserver(nil)
    for moment in moments.withLock({ $0 }) {
      for (policy, image) in moment.images(subsets: 32, torn: 8, seed: 3) {
        let objects = DirectoryObjectStore(path: "root", on: SimulatedDisk(image))
        try await objects.createRoot()
        #expect(try await objects.create("a", ObjectBody("x")) == .created, "\(policy)")
      }
    }
    for (policy, image) in disk.moment().images(subsets: 32, torn: 8, seed: 3) {
      let objects = DirectoryObjectStore(path: "root", on: SimulatedDisk(image))
      #expect(try await objects.get("a", nil) == nil, "\(policy)")
    }
  }
}
