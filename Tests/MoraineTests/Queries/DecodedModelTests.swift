import Foundation
import Moraine
import Testing

/// Indexes and caches have models as they are decoded, for formats that change them.
@Suite(.timeLimit(.minutes(10))) struct DecodedModelTests {
  private struct Meeting: Codable, Identifiable, Equatable, Sendable {
    var id: Int
    var startDate: Date
  }

  private static let indexes: [ModelIndex<Meeting>] = [.index("start", on: \.startDate)]

  /// Returns a format that drops the fractions of dates.
  private func format() -> ModelFormat<Meeting> {
    let (encoder, decoder) = (JSONEncoder(), JSONDecoder())
    encoder.dateEncodingStrategy = .iso8601
    decoder.dateDecodingStrategy = .iso8601
    return .json(encoder: encoder, decoder: decoder)
  }

  private func meetings(
    _ store: Store, _ indexes: [ModelIndex<Meeting>] = Self.indexes
  ) throws -> LocalRepository<Meeting> {
    try LocalRepository(in: store, named: "meetings", format: format(), indexes: indexes)
  }

  private func meeting(_ id: Int, at seconds: Double) -> Meeting {
    Meeting(id: id, startDate: Date(timeIntervalSinceReferenceDate: 800_000_000 + seconds))
  }

  /// Compares the answers of the index and of the cache with those of a scan.
  private func compare(_ meetings: LocalRepository<Meeting>, count: Int) async throws {
    let all = try await meetings.loadAll()
    #expect(all.count == count)
    for meeting in all {
      let start = meeting.startDate
      #expect(try await meetings.find(by: meeting.id) == meeting)
      let query = meetings.query(where: \.startDate, is: start)
      #expect(try await query.explain().index == "start")
      let ids = try await query.fetch().map(\.id).sorted()
      #expect(ids == all.filter { $0.startDate == start }.map(\.id).sorted(), "\(meeting)")
      let later = try await meetings.query(where: \.startDate, in: start...).count()
      #expect(later == all.count { $0.startDate >= start }, "\(meeting)")
      let earlier = try await meetings.query(where: \.startDate, in: ...start).count()
      #expect(earlier == all.count { $0.startDate <= start }, "\(meeting)")
    }
  }

  /// Regression: an index had the dates of the saved models, and all other answers had those of the
  /// decoded ones, without their fractions. A model was not found by its own date.
  @Test func indexAnswersForModelsAsTheyAreDecoded() async throws {
    let meetings = try meetings(Store.inMemory())
    try await meetings.save(contentsOf: [meeting(1, at: 1.734), meeting(2, at: 1.2)])
    try await compare(meetings, count: 2)
    let updated = try await meetings.update(2) { _ in self.meeting(2, at: 3.734) }
    #expect(updated == meeting(2, at: 3.734))
    try await compare(meetings, count: 2)
    try await meetings.write { batch in try batch.save(self.meeting(3, at: 3.9)) }
    try await compare(meetings, count: 3)
    try await meetings.keyspace.store.transaction { transaction in
      try await meetings.save(self.meeting(4, at: 4.734), in: transaction)
    }
    try await compare(meetings, count: 4)
    let queue = try await meetings.writeQueue()
    try await queue.save(meeting(5, at: 5.734))
    try await queue.flush()
    try await compare(meetings, count: 5)
    let folder = try Folder()
    let file = folder.url.appendingPathComponent("meetings.json")
    try JSONEncoder().encode([meeting(6, at: 6.734)]).write(to: file)
    #expect(try await meetings.importArray(from: file) == 1)
    try await compare(meetings, count: 6)
  }

  @Test func indexThatIsBuiltLaterHasTheSameValues() async throws {
    let store = Store.inMemory()
    try await meetings(store, []).save(contentsOf: [meeting(1, at: 1.734), meeting(2, at: 1.2)])
    let meetings = try meetings(store)
    try await meetings.buildIndexes()
    try await meetings.save(meeting(3, at: 1.9))
    try await compare(meetings, count: 3)
  }

  /// The cache returns what the program finds after its next start.
  @Test func cacheWithoutAnIndexHasDecodedModels() async throws {
    let meetings = try meetings(Store.inMemory(), [])
    try await meetings.save(meeting(1, at: 1.734))
    #expect(try await meetings.find(by: 1) != meeting(1, at: 1.734))
    #expect(try await meetings.find(by: 1) == meetings.loadAll().first)
    try await meetings.update(1) { _ in self.meeting(1, at: 2.734) }
    #expect(try await meetings.find(by: 1) == meetings.loadAll().first)
    let found = try await meetings.write { batch in
      try batch.save(self.meeting(1, at: 3.734))
      return try batch.find(by: 1)
    }
    #expect(try await meetings.find(by: 1) == meetings.loadAll().first)
    #expect(try await meetings.find(by: 1) == found)
  }

  @Test func modelThatItsFormatCannotDecodeIsNotSaved() async throws {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    let meetings = try LocalRepository<Meeting>(
      in: Store.inMemory(), named: "meetings", format: .json(encoder: encoder),
      indexes: Self.indexes)
    let error = await #expect(throws: StoreError.self) {
      try await meetings.save(meeting(1, at: 1))
    }
    #expect(error?.code == .encodingFailed)
    #expect(try await meetings.count() == 0)
  }
}
