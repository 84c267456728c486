import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// The same forgeries as in `ForgedStoreTests`, in a store that was not closed: there a place that
/// does not parse may also be the torn end of the log. A forgery is never a trap, and never a
/// value.
@Suite struct UncleanForgeryTests {
  /// The possible outcomes. No record may be read: none precedes the first record.
  enum Outcome: Sendable { case tornAtOnce, newerFormat, corrupted }

  struct Lie: Sendable, CustomTestStringConvertible {
    let name: String
    let expected: Outcome
    let tell: @Sendable (inout [UInt8]) -> Void
    var testDescription: String { name }

    init(_ name: String, _ expected: Outcome, _ tell: @escaping @Sendable (inout [UInt8]) -> Void) {
      self.name = name
      self.expected = expected
      self.tell = tell
    }
  }

  static let lies: [Lie] = [
    Lie("length 0", .tornAtOnce) { $0.store(UInt32(0), at: 0) },
    Lie("length 1", .tornAtOnce) { $0.store(UInt32(1), at: 0) },
    Lie("length 19", .tornAtOnce) { $0.store(UInt32(19), at: 0) },
    Lie("length 2^31", .tornAtOnce) { $0.store(UInt32(1) << 31, at: 0) },
    Lie("length 2^32 - 1", .tornAtOnce) { $0.store(UInt32.max, at: 0) },
    Lie("length 2^32 - 4", .tornAtOnce) { $0.store(UInt32.max - 3, at: 0) },
    Lie("key of one byte more than the record", .newerFormat) {
      $0.store(UInt32($0.count - RecordHeader.fixedLength + 1) << 8, at: 16)
    },
    Lie("key of 64 KiB", .newerFormat) { $0.store(UInt32(65_536) << 8, at: 16) },
    Lie("key of 16 MiB", .newerFormat) { $0.store(UInt32(0xFF_FFFF) << 8, at: 16) },
    Lie("raw length over 255 × stored + 64", .newerFormat) { record in
      record[15] |= RecordCodec.lz4.rawValue << 4
      record.store(UInt32(1) << 20, at: RecordHeader.fixedLength)
    },
    Lie("raw length of 4 GiB", .newerFormat) { record in
      record[15] |= RecordCodec.lz4.rawValue << 4
      record.store(UInt32.max, at: RecordHeader.fixedLength)
    },
    Lie("a batch of 4 billion", .corrupted) { record in
      record[15] |= BatchRole.end.rawValue << 6
      record.store(UInt32.max, at: RecordHeader.fixedLength)
    },
    Lie("a batch that another record breaks off", .corrupted) { record in
      record[15] |= BatchRole.more.rawValue << 6
    },
    Lie("an extension of 64 KiB", .newerFormat) { record in
      record[16] = RecordHeader.Flag.extension
      record.store(UInt16.max, at: RecordHeader.fixedLength)
    },
    Lie("sequence number 0", .corrupted) { record in for place in 8..<15 { record[place] = 0 } },
    Lie("a delete with a value", .newerFormat) { record in record[15] = 2 },
    Lie("a sync mark of another length", .newerFormat) { record in record[15] = 3 },
    Lie("a footer of another length", .newerFormat) { record in record[15] = 4 },
  ]

  private func killedStore(
    mode: Store.Configuration.IOMode, durability: Durability = .none
  ) async throws -> TestDirectory {
    let directory = try TestDirectory()
    let store = try Store(
      at: directory.path, configuration: .testing(ioMode: mode, durability: durability))
    for number in 0..<4 { try await store.set([UInt8](0..<40), forKey: Key("key \(number)")) }
    let copy = try TestDirectory()
    try FileManager.default.copyItem(at: directory.store, to: copy.store)
    try await store.close()
    return copy
  }

  @Test(arguments: lies, [Store.Configuration.IOMode.mapped, .positional])
  func forgedRecordInAnOpenLogIsTheEndOrAnError(
    _ lie: Lie, mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try await killedStore(mode: mode)
    let forgery = Forgery(directory: directory)
    try forgery.changeFirstRecord { lie.tell(&$0) }
    let before = try forgery.contents()
    var outcome: Outcome?
    do throws(StoreError) {
      var configuration = Store.Configuration.testing(ioMode: mode)
      configuration.isReadOnly = true
      let reader = try Store(at: directory.path, configuration: configuration)
      let count = try await reader.count()
      #expect(count == 0, "nothing counts after a hole")
      #expect(await reader.recoveryReport.tornBytes > 0)
      try await reader.close()
      outcome = .tornAtOnce
    } catch {
      switch error.code {
      case .newerFormat: outcome = .newerFormat
      case .corrupted: outcome = .corrupted
      default: Issue.record("\(error)")
      }
      #expect(error.file?.hasSuffix(".segment") == true)
    }
    #expect(outcome == lie.expected)
    #expect(try forgery.contents() == before, "a reader changes nothing")
    do throws(StoreError) {
      let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
      #expect(lie.expected == .tornAtOnce)
      try await store.set([1], forKey: "new", durability: .sync)
      try await store.close()
    } catch {
      #expect(lie.expected != .tornAtOnce, "\(error)")
      #expect(error.code == (lie.expected == .newerFormat ? .newerFormat : .corrupted))
      let names = try directory.segments().map(\.lastPathComponent)
      #expect(names == before.keys.filter { $0.hasSuffix(".segment") }.sorted())
    }
  }

  /// Each mark holds a checksum of the records before it.
  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func anotherKeyIsNoticedByTheNextMark(mode: Store.Configuration.IOMode) async throws {
    let directory = try await killedStore(mode: mode, durability: .sync)
    try Forgery(directory: directory).changeFirstRecord { $0[RecordHeader.fixedLength] ^= 1 }
    let error = #expect(throws: StoreError.self) {
      try Store(at: directory.path, configuration: .testing(ioMode: mode))
    }
    #expect(error?.code == .corrupted)
  }

  /// The length is within the bound and still false: only decompressing shows it.
  @Test(arguments: [0, 1, 39, 5000], [Store.Configuration.IOMode.mapped, .positional])
  func aPlausibleRawLengthIsFoundWhenReading(
    length: Int, mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try await killedStore(mode: mode)
    try Forgery(directory: directory).changeFirstRecord { record in
      record[15] |= RecordCodec.lz4.rawValue << 4
      // The key extends into the value; the rest of the value is no LZ4 block of this length.
      record.store(UInt32(length), at: RecordHeader.fixedLength)
    }
    do throws(StoreError) {
      let store = try Store(at: directory.path, configuration: .testing(ioMode: mode))
      #expect(try await store.count() == 4)
      let report = try await store.verify()
      #expect(report.problems.map(\.code) == [.corrupted])
      for number in 1..<4 {
        let value = try await store.value(forKey: Key("key \(number)"))
        #expect(value == [UInt8](0..<40))
      }
      try await store.close()
    } catch {
      Issue.record("\(error)")
    }
  }

  /// The checksum cannot reveal this: the manifest's own length is compared with the file first.
  @Test(arguments: [UInt32.max, UInt32(1) << 31, 0, 1])
  func aManifestsLengthIsNotBelieved(length: UInt32) async throws {
    let directory = try await killedStore(mode: .mapped)
    let url = directory.store.appendingPathComponent("MANIFEST")
    var bytes = [UInt8](try Data(contentsOf: url))
    bytes.store(length, at: 12)
    bytes.store(Checksum.of(Array(bytes.dropLast(4))), at: bytes.count - 4)
    try Data(bytes).write(to: url)
    let error = #expect(throws: StoreError.self) { try Store(at: directory.path) }
    #expect(error?.code == .corrupted)
    #expect(error?.file == "MANIFEST")
    #expect(error?.offset == 12)
  }
}
