import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// A keyspace's name is durable before any record of the keyspace is.
@Suite struct KeyspaceCrashTests {
  private struct Wrong: Error {
    let what: String
  }

  /// P1: the store opens after a crash at every call, and contains everything that was
  /// acknowledged.
  @Test(arguments: KeyspaceTests.modes)
  func everyCrashLeavesAPrefix(mode: Store.Configuration.IOMode) async throws {
    var configuration = Store.Configuration.testing(segmentSizeBytes: 400, ioMode: mode)
    configuration.compaction = .manual
    let opened = configuration
    // Few disks for each crash: the laboratory has scenarios of keyspaces, with all disks.
    var experiment = CrashExperiment()
    (experiment.subsetsPerPoint, experiment.tornPerPoint) = (8, 2)
    let tally = try await experiment.run { disk, ledger in
      let store = try disk.openStore(configuration: opened)
      for number in 0..<8 {
        let names = [0, 1].map { "k \((number + $0) / 2)" }
        let keyspaces = try names.map { try store.keyspace(named: $0) }
        ledger.begin()
        try await store.write(durability: .sync) { batch in
          for keyspace in keyspaces { try batch.set([UInt8(number)], forKey: "a", in: keyspace) }
        }
        ledger.becomeDurable()
      }
      _ = try await store.compact()
      try await store.close()
    } check: { disk, steps in
      let store = try disk.openStore(configuration: opened)
      var last: [UInt8?] = []
      for number in 0...4 {
        last.append(try await store.keyspace(named: "k \(number)").value(forKey: "a")?.first)
      }
      // Returns the contents of each keyspace after `done` batches.
      func expected(_ done: Int) -> [UInt8?] {
        (0...4).map { (keyspace: Int) -> UInt8? in
          let batch = (0..<done).last { $0 / 2 == keyspace || ($0 + 1) / 2 == keyspace }
          return batch.map { UInt8($0) }
        }
      }
      guard let found = (0...8).last(where: { expected($0) == last }) else {
        throw Wrong(what: "a batch was applied in part: \(last)")
      }
      guard steps.contains(UInt64(found)) else {
        throw Wrong(what: "\(found) batches are there, not \(steps)")
      }
      guard try await store.verify().isSound else { throw Wrong(what: "not sound") }
      try await store.close()
    }
    #expect(tally.crashPoints > 50)
  }

  /// Damage: a record of a keyspace that no manifest has listed.
  @Test func aRecordOfAnUnknownKeyspaceIsAnError() async throws {
    let disk = SimulatedDisk()
    let store = try disk.openStore(configuration: .hashed())
    try await store.keyspace(named: "users").set([1], forKey: "a")
    try await store.close()
    let directory = try #require(try disk.openDirectory("store"))
    let file = try #require(try directory.openFile(Manifest.fileName, .readWrite))
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    var manifest = try bytes.withUnsafeBytes { try Manifest(decoding: $0) }
    manifest.keyspaces = []
    let forged = manifest.encoded()
    try forged.withUnsafeBytes { try file.write($0, at: 0) }
    try file.truncate(to: UInt64(forged.count))
    for name in try directory.entries().map(\.name) where name.hasSuffix(".index") {
      try directory.remove(name)
    }
    let error = #expect(throws: StoreError.self) {
      _ = try disk.openStore(configuration: .testing())
    }
    #expect(error?.code == .corrupted)
    #expect(error?.file == "0000000001.segment")
  }

  /// A manifest that could not be published leaves neither the keyspace nor the record.
  @Test func keyspaceWhoseNameCannotBeWrittenDoesNotExist() async throws {
    let disk = SimulatedDisk()
    let fault = DiskFault(
      .noSpace, on: [.create], file: Manifest.temporaryFileName, occurrence: 3)
    let store = try disk.openStore(configuration: .testing(), faults: [fault])
    try await store.set([1], forKey: "a")
    let users = try store.keyspace(named: "users")
    let error = await #expect(throws: StoreError.self) { try await users.set([1], forKey: "a") }
    #expect(error?.code == .noSpace)
    #expect(try await store.keyspaceNames() == [])
    try await users.set([2], forKey: "a")
    #expect(try await users.value(forKey: "a") == [2])
    #expect(try await store.count() == 2)
    try await store.close()
    let again = try disk.openStore(configuration: .testing())
    #expect(try await again.keyspace(named: "users").value(forKey: "a") == [2])
    try await again.close()
  }
}
