import ExampleTesting
import Foundation
import Moraine
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
