import MoraineStorage
import MoraineTesting
import Synchronization
import SystemPackage
import Testing

/// Names that a crash leaves after a rename to a free name.
@Suite struct SimulatedRenameTests {
  private let disk = SimulatedDisk()
  private let directory: any StorageDirectory

  /// Creates a durable file `source`.
  init() throws {
    try disk.createDirectory("d")
    directory = try #require(try disk.openDirectory("d"))
    try Self.create("source", "new", in: directory)
  }

  private static func create(
    _ name: String, _ text: String, in directory: any StorageDirectory
  ) throws {
    let file = try directory.createFile(name)
    try Array(text.utf8).withUnsafeBytes { try file.write($0, at: 0) }
    try file.synchronize(.full)
    try directory.synchronize()
  }

  /// Returns the directory's files in every image of a moment.
  private static func possible(_ moment: DiskMoment) -> Set<[String: String]> {
    Set(
      moment.images(subsets: 64, torn: 8, seed: 1).map { _, image in
        (image.directories["d"] ?? [:]).mapValues { String(decoding: $0, as: UTF8.self) }
      })
  }

  @Test func syncedNameSurvives() throws {
    #expect(try directory.renameIfAbsent("source", to: "target"))
    try directory.synchronize()
    #expect(Self.possible(disk.moment()) == [["target": "new"]])
  }

  /// The link and the removal of the old name survive independently of each other, as the two
  /// changes of a rename do on this disk.
  @Test func unsyncedNameIsOldOrNewAndWhole() throws {
    #expect(try directory.renameIfAbsent("source", to: "target"))
    #expect(
      Self.possible(disk.moment()) == [
        ["source": "new"], ["target": "new"], ["source": "new", "target": "new"], [:],
      ])
  }

  /// A crash between the link and the removal of the old name leaves the file in every image.
  @Test func crashBetweenTheTwoChangesKeepsTheFile() throws {
    let moments = MomentList()
    disk.setObserver { [disk] in moments.append(disk.moment()) }
    #expect(try directory.renameIfAbsent("source", to: "target"))
    disk.setObserver(nil)
    try #require(moments.all.count == 2)
    #expect(Self.possible(moments.all[0]) == [["source": "new"]])
    #expect(
      Self.possible(moments.all[1]) == [["source": "new"], ["source": "new", "target": "new"]])
  }

  @Test func refusedRenameChangesNothing() throws {
    try Self.create("target", "old", in: directory)
    #expect(try !directory.renameIfAbsent("source", to: "target"))
    #expect(Self.possible(disk.moment()) == [["source": "new", "target": "old"]])
  }

  @Test func renameBetweenTwoNamesOfAFileKeepsBoth() throws {
    #expect(try directory.share("source", into: directory, as: "target", linking: true))
    try directory.synchronize()
    try directory.rename("source", to: "target")
    #expect(Self.possible(disk.moment()) == [["source": "new", "target": "new"]])
  }

  @Test func plannedFaultOfRenamesStrikesBeforeTheEffect() throws {
    let faults = FaultStorage(disk)
    let directory = try #require(try faults.openDirectory("d"))
    faults.setScript { $0.operation == .rename ? .fail(.ioError) : nil }
    let error = #expect(throws: StorageError.self) {
      try directory.renameIfAbsent("source", to: "target")
    }
    #expect(error?.errno == .ioError)
    #expect(Self.possible(disk.moment()) == [["source": "new"]])
  }
}

/// Moments of a disk, in their order.
final class MomentList: Sendable {
  private let moments = Mutex<[DiskMoment]>([])

  func append(_ moment: DiskMoment) { moments.withLock { $0.append(moment) } }
  var all: [DiskMoment] { moments.withLock { $0 } }
}
