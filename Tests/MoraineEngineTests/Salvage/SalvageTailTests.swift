import MoraineEngine
import MoraineFormat
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

/// The end of a log: bytes that recovery would cut off are torn, bytes that were promised are lost.
@Suite struct SalvageTailTests {
  private let storage = MemoryStorage()
  private static let name = "0000000001.segment"

  /// Makes a store that a killed process has left.
  private func killed(
    durability: Durability, _ write: (Store) async throws -> Void
  ) async throws {
    let configuration = Store.Configuration.testing(durability: durability)
    let store = try Store(on: storage, at: "store", configuration: configuration)
    try await write(store)
    try storage.createDirectory("killed")
    let (from, to) = (try open("store"), try open("killed"))
    for entry in try from.entries() where entry.name != "LOCK" {
      let source = try #require(try from.openFile(entry.name, .read))
      var bytes = [UInt8](repeating: 0, count: Int(try source.lengthBytes()))
      _ = try bytes.withUnsafeMutableBytes { try source.read(into: $0, at: 0) }
      let target = try to.createFile(entry.name)
      try bytes.withUnsafeBytes { try target.write($0, at: 0) }
    }
    try await store.close()
  }

  private func open(_ path: FilePath) throws -> any StorageDirectory {
    try #require(try storage.openDirectory(path))
  }

  /// Changes a byte of the text where it stands in the log.
  private func damage(_ text: String) throws {
    let file = try #require(try open("killed").openFile(Self.name, .readWrite))
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    let place = try #require(bytes.firstRange(of: Array(text.utf8)))
    try [bytes[place.lowerBound] ^ 1].withUnsafeBytes {
      try file.write($0, at: UInt64(place.lowerBound))
    }
  }

  private func salvage() async throws -> (keys: Set<Key>, report: SalvageReport) {
    let report = try await Store.salvage("killed", to: "salvaged", on: storage)
    let store = try Store(on: storage, at: "salvaged", configuration: .testing())
    let keys = Set(try await store.everything().keys)
    try await store.close()
    return (keys, report)
  }

  private func put(_ range: Range<Int>, _ store: Store) async throws {
    for number in range { try await store.set([1], forKey: Key("key \(number)")) }
  }

  private func keys(_ range: Range<Int>) -> Set<Key> { Set(range.map { Key("key \($0)") }) }

  @Test func aKilledStoreIsWhole() async throws {
    try await killed(durability: .none) { try await put(0..<20, $0) }
    let (found, report) = try await salvage()
    #expect(found == keys(0..<20) && report.isComplete && report.torn.isEmpty)
  }

  @Test func aTornRecordAtTheEndIsNoLoss() async throws {
    try await killed(durability: .none) { try await put(0..<20, $0) }
    try damage("key 19")
    let (found, report) = try await salvage()
    #expect(found == keys(0..<19) && report.isComplete)
    #expect(report.torn.count == 1 && report.torn[0].keys.count == 1)
  }

  @Test func damagedDurableRecordIsALoss() async throws {
    try await killed(durability: .none) { store in
      try await put(0..<20, store)
      _ = try await store.sync()
      // The mark that promises the record is written with the next record.
      try await store.set([2], forKey: "key 20", durability: .sync)
      try await store.set([2], forKey: "key 21", durability: .sync)
    }
    try damage("key 19")
    let (found, report) = try await salvage()
    #expect(found == keys(0..<22).subtracting(["key 19"]))
    #expect(report.losses.count == 1 && report.torn.isEmpty)
  }

  /// Recovery stops at the damage; salvage uses the records after it, and names those in between.
  @Test func recordsAfterADamagedRecordAreRecovered() async throws {
    try await killed(durability: .none) { try await put(0..<20, $0) }
    try damage("key 15")
    let (found, report) = try await salvage()
    #expect(found == keys(0..<20).subtracting(["key 15"]))
    let loss = try #require(report.losses.first)
    #expect(loss.after.rawValue == 15 && loss.before?.rawValue == 17)
    #expect(loss.keys.map(\.sequence.rawValue) == [16])
  }

  /// The batch was never committed: none of its records counts, though some are whole.
  @Test func batchWithoutItsEndIsNotRecovered() async throws {
    try await killed(durability: .none) { store in
      try await put(0..<5, store)
      try await store.write { batch in
        for number in 5..<9 { try batch.set([1], forKey: Key("key \(number)")) }
      }
    }
    try damage("key 8")
    let (found, report) = try await salvage()
    #expect(found == keys(0..<5) && report.isComplete)
    #expect(report.torn.count == 1 && report.torn[0].keys.count >= 3)
  }

  /// The batch was committed: its whole records count, and the report says that it is broken.
  @Test(arguments: ["key 3", "key 0"])
  func damagedCommittedBatchIsReportedAsBroken(lost: String) async throws {
    try await killed(durability: .none) { store in
      try await store.write { batch in
        for number in 0..<4 { try batch.set([1], forKey: Key("key \(number)")) }
      }
      try await put(4..<6, store)
    }
    try damage(lost)
    let (found, report) = try await salvage()
    #expect(found == keys(0..<6).subtracting([Key(lost)]))
    #expect(report.losses.map(\.breaksBatch) == [true])
  }

  /// The value that a lost operation had hidden reappears, and the report names its key.
  @Test func olderValueThatReappearsIsReported() async throws {
    try await killed(durability: .none) { store in
      try await store.set([1], forKey: "key 0")
      try await store.set(Array("second".utf8), forKey: "key 0")
      try await store.set([1], forKey: "key 1")
    }
    try damage("second")
    let (found, report) = try await salvage()
    #expect(found == keys(0..<2))
    let key = try #require(report.losses.first?.keys.first)
    #expect(key.key == "key 0" && key.hasValue && !key.isVerified)
  }

  /// The file ends, or holds zeros, before the place that a mark has promised.
  @Test(arguments: [true, false])
  func missingDurableBytesAreALoss(cuts: Bool) async throws {
    try await killed(durability: .none) { store in
      try await put(0..<20, store)
      _ = try await store.sync()
      try await store.set([2], forKey: "key 20", durability: .sync)
    }
    let file = try #require(try open("killed").openFile(Self.name, .readWrite))
    let manifest = try #require(try open("killed").openFile(Manifest.fileName, .readWrite))
    // The manifest promises all records; the file has the first one.
    try Self.promise(400, in: manifest)
    if cuts {
      try file.truncate(to: 128 + 28)
    } else {
      let zeros = [UInt8](repeating: 0, count: Int(try file.lengthBytes()) - 156)
      try zeros.withUnsafeBytes { try file.write($0, at: 156) }
    }
    let (found, report) = try await salvage()
    #expect(found == ["key 0"])
    #expect(report.losses.count == 1 && report.losses[0].offset == 156)
    #expect(report.losses[0].lengthBytes == 400 - 156)
  }

  private static func promise(_ offset: UInt64, in file: any StorageFile) throws {
    var bytes = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    _ = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
    var manifest = try bytes.withUnsafeBytes { try Manifest(decoding: $0) }
    (manifest.watermarkSegment, manifest.watermarkOffset) = (1, offset)
    try manifest.encoded().withUnsafeBytes { try file.write($0, at: 0) }
  }

  @Test func listedSegmentOfZerosIsALoss() async throws {
    try await killed(durability: .none) { try await put(0..<5, $0) }
    let file = try #require(try open("killed").openFile(Self.name, .readWrite))
    let zeros = [UInt8](repeating: 0, count: Int(try file.lengthBytes()))
    try zeros.withUnsafeBytes { try file.write($0, at: 0) }
    let (found, report) = try await salvage()
    #expect(found.isEmpty && report.losses.map(\.kind) == [.segment])
    #expect(report.losses[0].lengthBytes == UInt64(zeros.count))
  }

  @Test func salvageFromOrIntoAWrongDirectoryIsRefused() async throws {
    try await killed(durability: .none) { try await put(0..<2, $0) }
    for (from, to) in [("killed", "store"), ("nowhere", "new"), ("empty", "new")] {
      try storage.createDirectory("empty")
      let error = await #expect(throws: StoreError.self) {
        _ = try await Store.salvage(FilePath(from), to: FilePath(to), on: storage)
      }
      #expect(error?.code == .notAStore, "\(from)")
    }
    let busy = try Store(on: storage, at: "killed", configuration: .testing())
    let error = await #expect(throws: StoreError.self) {
      _ = try await Store.salvage("killed", to: "new", on: storage)
    }
    #expect(error?.code == .locked)
    try await busy.close()
  }
}
