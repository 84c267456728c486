import Foundation
import MoraineEngine
import MoraineFormat
import MoraineTesting
import Testing

/// Values that share a dictionary need it; its bytes must be verified.
@Suite struct SalvageDictionaryTests {
  private func fill(_ store: Store) async throws -> [Key: [UInt8]] {
    var state: [Key: [UInt8]] = [:]
    for (number, document) in SimilarDocuments.make(0..<1500).enumerated() {
      state[Key("\(number)")] = document
      try await store.set(document, forKey: Key("\(number)"))
    }
    return state
  }

  /// Returns a closed store, and one of its segments that has a dictionary.
  private func make(_ directory: TestDirectory) async throws -> ([Key: [UInt8]], URL) {
    let store = try Store(at: directory.path, configuration: .dictionaries(.mapped))
    let state = try await fill(store)
    try await store.compact()
    try await store.close()
    let segment = try directory.segments().first { try $0.header.dictionary.count > 300 }
    return (state, try #require(segment))
  }

  @Test(arguments: [Store.Configuration.IOMode.mapped, .positional])
  func valuesComeWithTheirDictionary(mode: Store.Configuration.IOMode) async throws {
    let directory = try TestDirectory()
    let configuration = Store.Configuration.dictionaries(mode)
    let store = try Store(at: directory.path, configuration: configuration)
    let state = try await fill(store)
    try await store.compact()
    try await store.close()
    let segments = try directory.segments().filter { try !$0.header.dictionary.isEmpty }
    #expect(!segments.isEmpty)
    let target = try TestDirectory()
    let report = try await Store.salvage(directory.path, to: target.path)
    #expect(report.isComplete)
    let salvaged = try Store(at: target.path, configuration: configuration)
    #expect(try await salvaged.everything() == state)
    try await salvaged.close()
  }

  /// One byte of the header: exactly one value of that byte makes the checksum right again.
  @Test(arguments: [3, 13, 20, 47, 84, 90, 101, 125])
  func aHeaderWithOneWrongByteIsRepaired(place: Int) async throws {
    let directory = try TestDirectory()
    let (state, segment) = try await make(directory)
    try segment.flip(at: place)
    let target = try TestDirectory()
    let report = try await Store.salvage(directory.path, to: target.path)
    #expect(report.segmentsWithoutHeader == [segment.lastPathComponent] && report.isComplete)
    let salvaged = try Store(at: target.path, configuration: .dictionaries(.mapped))
    #expect(try await salvaged.everything() == state)
    try await salvaged.close()
  }

  /// Two bytes of the header, or one of the dictionary: every key is recovered or named, and no
  /// value comes from a wrong dictionary.
  @Test(arguments: [[10, 90], [300]])
  func aDictionaryThatIsNotProvenIsNotUsed(places: [Int]) async throws {
    let directory = try TestDirectory()
    let (state, segment) = try await make(directory)
    let shared = try segment.records.filter { $0.codec == .lz4Dictionary }
    for place in places { try segment.flip(at: place) }
    let target = try TestDirectory()
    let report = try await Store.salvage(directory.path, to: target.path)
    #expect(report.segmentsWithoutHeader == [segment.lastPathComponent])
    let named = Set(report.losses.flatMap(\.keys).filter(\.isVerified).map(\.key))
    #expect(named == Set(shared.map { Key($0.key) }))
    let salvaged = try Store(at: target.path, configuration: .dictionaries(.mapped))
    let found = try await salvaged.everything()
    #expect(found == state.filter { !named.contains($0.key) })
    try await salvaged.close()
  }
}
