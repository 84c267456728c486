import ExampleTesting
import Foundation
import Moraine
import MoraineTesting
import Testing

@testable import AddressBook

/// The example with a list that an index filters and sorts.
@Suite(.timeLimit(.minutes(2))) struct AddressBookTests {
  private let folder: TemporaryFolder
  private var path: String { folder.url.path }

  init() throws { folder = try TemporaryFolder() }

  @Test func listIsFilteredSortedAndFollowsTheOtherProcess() async throws {
    let code = try await Example.talk("AddressBook", "anna", path) { anna in
      #expect(try await anna.nextLine() == "anna has 0 people")
      #expect(try await anna.nextLine() == "no people")
      try await anna.say("add grace Grace Oslo")
      #expect(try await anna.nextLine() == "Grace (Oslo)")
      try await anna.say("add ada Ada Bern")
      #expect(try await anna.nextLine() == "Ada (Bern), Grace (Oslo)")
      try await anna.say("city Bern")
      #expect(try await anna.nextLine() == "Ada (Bern)")
      let code = try await Example.talk("AddressBook", "ben", path) { ben in
        #expect(try await ben.nextLine() == "ben has 2 people")
        #expect(try await ben.nextLine() == "Ada (Bern), Grace (Oslo)")
        try await ben.say("move grace Bern")
        #expect(try await anna.nextLine() == "Ada (Bern), Grace (Bern)")
        try await ben.say("move ada Oslo")
        #expect(try await anna.nextLine() == "Grace (Bern)")
      }
      #expect(code == 0)
      try await anna.say("search Ad")
      #expect(try await anna.nextLine() == "Ada (Oslo)")
    }
    #expect(code == 0)
  }

  @Test func secondPersonWithAnEmailAddressIsRefused() async throws {
    let outcome = try await Example.run(
      "AddressBook", "anna", path,
      input: "add ada Ada Bern\nadd grace Grace Oslo\nemail grace ada@example.org\nhello\n")
    #expect(outcome.code == 0, "\(outcome)")
    #expect(outcome.lines.contains("'ada' has that email address"), "\(outcome)")
    #expect(outcome.lines.contains { $0.hasPrefix("type 'add ID NAME CITY'") }, "\(outcome)")
    #expect(try await Example.run("AddressBook").code == 2)
  }

  @Test func listsReadOnlyWhatTheyShow() async throws {
    let people = try LocalRepository<Person>(
      in: Store.inMemory(), named: "people", indexes: Person.indexes)
    try await people.save(
      contentsOf: (0..<1_000).map {
        Person(id: "\($0)", name: "Name \($0)", city: "City \($0 % 100)", email: "\($0)@x")
      })
    try await people.buildIndexes()
    let city = try await people.query(where: \.city, is: "City 7").sorted(by: \.name).explain()
    #expect(city.index == "city, name" && city.candidateCount == 10 && !city.isSortingInMemory)
    let found = try await people.query(where: \.name, hasPrefix: "Name 99").sorted(by: \.name)
      .explain()
    #expect(found.index == "name" && found.candidateCount == 11 && !found.isSortingInMemory)
  }
}

/// Two processes with indexes, one of which is killed again and again, beside a third that does not
/// know the indexes: the test itself.
@Suite(.timeLimit(.minutes(5))) struct AddressBookKillTests {
  private let folder: TemporaryFolder

  init() throws { folder = try TemporaryFolder() }

  @Test func indexesEqualTheModelsAfterKills() async throws {
    let seed: UInt64 = 7
    var generator = SeededGenerator(seed: seed)
    for round in 0..<12 {
      let lists = (0..<2).map { _ in (0..<60).map { _ in Self.command(&generator) } }
      let killedAfter = Int(generator.next() % 60)
      let plain = (0..<20).map { _ in Self.person(&generator) }
      try await withThrowingTaskGroup(of: Void.self) { [url = folder.url] group in
        for (number, list) in lists.enumerated() {
          group.addTask {
            try await Self.talk(url.path, list, killAfter: number == 0 ? killedAfter : nil)
          }
        }
        group.addTask { try await Self.writeWithoutIndexes(url, plain) }
        try await group.waitForAll()
      }
      try await check(seed: seed, round: round)
    }
  }

  /// Gives commands to a process, and kills it.
  private static func talk(_ path: String, _ commands: [String], killAfter count: Int?) async throws
  {
    _ = try await Example.talk("AddressBook", "anna", path) { process in
      _ = try await process.nextLine()
      for (number, command) in commands.enumerated() {
        if number == count { return try await process.kill() }
        try await process.say(command)
      }
    }
  }

  private static func writeWithoutIndexes(_ folder: URL, _ people: [Person]) async throws {
    let store = try openedStore(folder)
    let repository = try LocalRepository<Person>(in: store, named: "people")
    for person in people {
      if person.name == "Name0" {
        try await repository.delete(person.id)
      } else {
        try await repository.save(person)
      }
    }
    try await store.close()
  }

  private static func openedStore(_ folder: URL) throws -> Store {
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    return try Store(at: folder.appendingPathComponent("book"), configuration: configuration)
  }

  private static func command(_ random: inout SeededGenerator) -> String {
    let person = person(&random)
    switch random.next() % 5 {
    case 0: return "remove \(person.id)"
    case 1: return "move \(person.id) \(person.city)"
    case 2: return "email \(person.id) \(person.email)"
    case 3: return "city \(person.city)"
    default: return "add \(person.id) \(person.name) \(person.city)"
    }
  }

  private static func person(_ random: inout SeededGenerator) -> Person {
    Person(
      id: "p\(random.next() % 30)", name: "Name\(random.next() % 7)",
      city: "City\(random.next() % 5)", email: "e\(random.next() % 40)@example.org")
  }

  private func check(seed: UInt64, round: Int) async throws {
    let store = try Self.openedStore(folder.url)
    let people = try LocalRepository<Person>(
      in: store, named: "people", indexes: Person.indexes)
    let report = try await store.verify()
    #expect(report.isSound, "seed \(seed), round \(round): \(report.problems)")
    let all = try await people.loadAll()
    for number in 0..<5 {
      let found = try await people.query(where: \.city, is: "City\(number)").sorted(by: \.name)
        .fetch()
      let expected = all.filter { $0.city == "City\(number)" }
      #expect(
        Set(found.map(\.id)) == Set(expected.map(\.id)) && found.count == expected.count,
        "seed \(seed), round \(round)")
      #expect(found.map(\.name) == found.map(\.name).sorted(), "seed \(seed), round \(round)")
    }
    for number in 0..<40 {
      let email = "e\(number)@example.org"
      let found = try await people.query(where: \.email, is: email).fetch()
      #expect(
        Set(found.map(\.id)) == Set(all.filter { $0.email == email }.map(\.id)),
        "seed \(seed), round \(round)")
    }
    let counted = try await people.query(where: \.name, hasPrefix: "Name").count()
    #expect(counted == all.count, "seed \(seed), round \(round)")
    try await store.close()
  }
}
