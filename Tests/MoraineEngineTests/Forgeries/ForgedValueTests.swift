import Foundation
import MoraineEngine
import MoraineFormat
import Testing

/// Values that claim to need a dictionary, and cannot be decompressed with the present one.
@Suite struct ForgedValueTests {
  private static let modes = [Store.Configuration.IOMode.mapped, .positional]
  private static let value = [UInt8](repeating: 7, count: 300)

  /// - Returns: the place of the first segment's first compressed value, which now needs a
  ///   dictionary.
  private func storeWithoutDictionary(
    _ directory: TestDirectory, _ configuration: Store.Configuration
  ) async throws -> Int {
    try await withStore(at: directory.path, configuration: configuration) { store in
      for number in 0..<8 { try await store.set(Self.value, forKey: Key("\(number)")) }
    }
    let segment = try #require(try directory.segments().first)
    return try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.key == Array("3".utf8) }
    ) { record, _ in
      record[15] = record[15] & 0xCF | RecordCodec.lz4Dictionary.rawValue << 4
    }
  }

  @Test(arguments: modes)
  func valueThatNeedsAMissingDictionaryIsAnError(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.dictionaries(mode)
    let place = try await storeWithoutDictionary(directory, configuration)
    let store = try Store(at: directory.path, configuration: configuration)
    let error = await #expect(throws: StoreError.self) { try await store.value(forKey: "3") }
    #expect(error?.code == .corrupted)
    #expect(error?.file == "0000000001.segment")
    #expect(error?.offset == UInt64(place))
    #expect(try await store.value(forKey: "4") == Self.value)
    let report = try await store.verify()
    #expect(report.problems.map(\.offset) == [UInt64(place)])
    try await store.close()
  }

  @Test(arguments: modes, [true, false])
  func compactionDoesNotCopyAValueThatNeedsAMissingDictionary(
    mode: Store.Configuration.IOMode, shares: Bool
  ) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.dictionaries(mode)
    configuration.compaction.sharesDictionaries = shares
    let place = try await storeWithoutDictionary(directory, configuration)
    let store = try Store(at: directory.path, configuration: configuration)
    try await store.removeValue(forKey: "5")
    let error = await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(error?.code == .corrupted)
    #expect(error?.file == "0000000001.segment")
    #expect(error?.offset == UInt64(place))
    #expect(try directory.segments().first?.lastPathComponent == "0000000001.segment")
    #expect(store.poison == nil)
    // Without this value the rest can be compacted.
    try await store.removeValue(forKey: "3")
    try await store.close()
    let again = try Store(at: directory.path, configuration: configuration)
    try await again.compact()
    #expect(try await again.count() == 6)
    #expect(try await again.verify().isSound)
    try await again.close()
  }

  @Test(arguments: modes)
  func compactionDoesNotCopyAValueThatDoesNotDecompress(
    mode: Store.Configuration.IOMode
  ) async throws {
    let directory = try TestDirectory()
    var configuration = Store.Configuration.dictionaries(mode)
    let documents = SimilarDocuments.make(0..<1500)
    try await withStore(at: directory.path, configuration: configuration) { store in
      for (number, document) in documents.enumerated() {
        try await store.set(document, forKey: Key("\(number)"))
      }
      try await store.compact()
    }
    let segment = try #require(try directory.segments().first)
    let length = documents[3].count
    let place = try Forgery(directory: directory).changeRecord(
      in: segment,
      where: { $0.key == Array("3".utf8) && $0.header.codec == .lz4Dictionary }
    ) { record, _ in record.store(UInt32(length - 1), at: RecordHeader.fixedLength) }
    // A merge compresses the values again.
    configuration.compaction.sharesDictionaries = false
    let store = try Store(at: directory.path, configuration: configuration)
    for number in 0..<3 { try await store.set(documents[number], forKey: Key("\(number)")) }
    let error = await #expect(throws: StoreError.self) { try await store.compact() }
    #expect(error?.code == .corrupted)
    #expect(error?.file == segment.lastPathComponent)
    #expect(error?.offset == UInt64(place))
    #expect(try directory.segments().contains(segment))
    #expect(try await store.value(forKey: "4") == documents[4])
    await #expect(throws: StoreError.self) { try await store.value(forKey: "3") }
    try await store.close()
  }

  /// Long values are not worth a place beside the dictionary from which short values are
  /// decompressed.
  @Test(arguments: modes)
  func longValuesOfASharedDictionaryAreRead(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.dictionaries(mode)
    let documents = SimilarDocuments.make(0..<1500)
    let long = documents[100..<150].flatMap { $0 }
    let store = try Store(at: directory.path, configuration: configuration)
    for (number, document) in documents.enumerated() {
      try await store.set(document, forKey: Key("\(number)"))
    }
    try await store.set(long, forKey: "long")
    try await store.compact()
    let segment = try #require(try directory.segments().first)
    let record = try segment.recordPlaces.first { $0.key == Array("long".utf8) }?.header
    #expect(record?.codec == .lz4Dictionary)
    #expect(record?.rawLength == long.count && long.count > 4096)
    #expect(try await store.value(forKey: "long") == long)
    try await store.close()
    // A false length is also found there.
    let place = try Forgery(directory: directory).changeRecord(
      in: segment, where: { $0.key == Array("long".utf8) }
    ) { record, _ in record.store(UInt32(long.count - 1), at: RecordHeader.fixedLength) }
    let again = try Store(at: directory.path, configuration: configuration)
    let error = await #expect(throws: StoreError.self) { try await again.value(forKey: "long") }
    #expect(error?.code == .corrupted)
    #expect(error?.offset == UInt64(place))
    #expect(try await again.value(forKey: "7") == documents[7])
    try await again.close()
  }
}
