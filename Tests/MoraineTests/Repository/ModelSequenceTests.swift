import Foundation
import Moraine
import MoraineEngine
import MoraineTesting
import Testing

/// All models, a few at a time.
@Suite(.timeLimit(.minutes(10))) struct ModelSequenceTests {
  private func collect(_ notes: LocalRepository<Note>) async throws -> [Note] {
    var result: [Note] = []
    for try await note in notes.models { result.append(note) }
    return result
  }

  @Test(arguments: [0, 1, 255, 256, 257, 3_000])
  func sequenceEqualsLoadAll(count: Int) async throws {
    let store = Store.inMemory()
    let notes = try LocalRepository<Note>(in: store, named: "notes")
    let others = try LocalRepository<Note>(in: store, named: "others")
    for number in 0..<count {
      try await notes.save(Note(id: number, text: "a"))
      if number % 3 == 0 { try await notes.save(Note(id: number / 2, text: "b")) }
      if number % 7 == 0 { try await notes.delete(number / 3) }
      if number % 5 == 0 { try await others.save(Note(id: number, text: "other")) }
    }
    #expect(try await collect(notes) == notes.loadAll())
    #expect(try await collect(others) == others.loadAll())
  }

  @Test func sequenceYieldsTheInitialModels() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a"), Note(id: 2, text: "b")])
    #expect(try await collect(notes).map(\.id) == [1, 2])
  }

  /// A page is one megabyte of the log, however few models that is.
  @Test func largeModelsComeInSmallPages() async throws {
    let notes = LocalRepository<Note>.inMemory()
    var random = SeededGenerator(seed: 1)
    for number in 0..<8 {
      let text = (0..<60_000).map { _ in String(random.next(), radix: 36) }.joined()
      try await notes.save(Note(id: number, text: text))
    }
    let page = try await notes.keyspace.livePage(LiveWalk())
    #expect((1...3).contains(page.entries.count))
    #expect(try await collect(notes).map(\.id) == Array(0..<8))
  }

  @Test func unreadableModelIsNamedAndTheNextModelFollows() async throws {
    let notes = LocalRepository<Note>.inMemory()
    try await notes.save(Note(id: 1, text: "a"))
    try await notes.keyspace.set(Array("no note".utf8), forKey: "2")
    try await notes.save(Note(id: 3, text: "c"))
    var iterator = notes.models.makeAsyncIterator()
    #expect(try await iterator.next()?.id == 1)
    let error = await #expect(throws: StoreError.self) { try await iterator.next() }
    #expect(error?.code == .decodingFailed)
    #expect(error?.message.contains("'2'") == true)
    #expect(try await iterator.next()?.id == 3)
    #expect(try await iterator.next() == nil)
    #expect(try await iterator.next() == nil)
  }

  @Test func aClosedStoreIsAnError() async throws {
    let notes = LocalRepository<Note>.inMemory([Note(id: 1, text: "a")])
    try await notes.save(Note(id: 2, text: "b"))
    var iterator = notes.models.makeAsyncIterator()
    try await notes.keyspace.store.close()
    let error = await #expect(throws: StoreError.self) { try await iterator.next() }
    #expect(error?.code == .closed)
  }

  /// During any writes and compactions: a model that existed all the time is returned, a changed
  /// model is returned in its last form, and the sequence ends.
  @Test(arguments: 0..<4 as Range<UInt64>)
  func sequenceMissesNothingDuringConcurrentWrites(seed: UInt64) async throws {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = 8_000
    configuration.durability = .none
    let store = Store.inMemory(configuration: configuration)
    let notes = try LocalRepository<Note>(in: store, named: "notes")
    for number in 0..<800 { try await notes.save(Note(id: number, text: "before")) }
    var random = SeededGenerator(seed: seed)
    var last: [Int: String] = [:]
    var seen: [Int: String] = [:]
    var deleted: Set<Int> = []
    var iterator = notes.models.makeAsyncIterator()
    var round = 0
    while let note = try await iterator.next() {
      seen[note.id] = note.text
      // Writes are faster than reads; the sequence must end nevertheless.
      for _ in 0..<2 {
        let id = Int(random.next() % 400)
        if random.next() % 10 == 0 {
          try await notes.delete(id)
          (last[id], deleted) = (nil, deleted.union([id]))
        } else {
          round += 1
          last[id] = "\(round)"
          try await notes.save(Note(id: id, text: "\(round)"))
        }
      }
      if random.next() % 500 == 0 { _ = try await store.compact() }
      try #require(round < 100_000, "the sequence never ends")
    }
    for id in 400..<800 { #expect(seen[id] == "before", "seed \(seed), id \(id)") }
    for id in 0..<400 where !deleted.contains(id) {
      #expect(seen[id] != nil, "seed \(seed), id \(id)")
    }
  }
}
