import ExampleTesting
import Foundation
import Moraine
import Testing

@testable import ContactsOriginal
@testable import ContactsPort

/// The output of the original and of the port.
@Suite(.timeLimit(.minutes(2))) struct ContactsTests {
  private let folder: TemporaryFolder
  private var path: String { folder.url.path }

  init() throws { folder = try TemporaryFolder() }

  /// Output of one repository, which is the same for both programs.
  private let common = [
    "At the start: nobody",
    "Two added: Ada Byron, Charles Babbage",
    "One renamed, one removed: Ada Lovelace",
  ]

  @Test func thePortKeepsWhatEveryWindowAdds() async throws {
    let outcome = try await Example.run("Contacts", path)
    let all = "Ada Lovelace, Barbara Liskov, Grace Hopper"
    #expect(outcome.code == 0 && outcome.errors.isEmpty, "\(outcome)")
    #expect(
      outcome.lines == common + [
        "A second window adds Grace: Ada Lovelace, Grace Hopper",
        "A third one adds Barbara: \(all)", "Opened once more: \(all)",
      ])
    let next = try await Example.run("Contacts", path)
    #expect(next.lines.first == "At the start: \(all)", "\(next)")
  }

  /// The reason for the port: two windows.
  @Test func theOriginalLosesWhatASecondWindowAdds() async throws {
    let outcome = try await Example.run("ContactsOriginal", path)
    #expect(outcome.code == 0, "\(outcome)")
    #expect(outcome.lines.prefix(3) == common[...])
    #expect(outcome.lines.last == "Opened once more: Ada Lovelace, Barbara Liskov")
  }

  @MainActor
  @Test func whatCannotBeReadIsAProblemAndStays() async throws {
    let repository = try Moraine.LocalRepository<ContactsPort.Contact>(
      directory: folder.url, filename: "contacts")
    let list = ContactsPort.ContactList(repository)
    await list.add(ContactsPort.Contact(id: "ada", name: "Ada"))
    #expect(list.problem == nil)
    try await repository.keyspace.set(Array("nonsense".utf8), forKey: "eve")
    await list.load()
    #expect(list.problem?.contains("eve") == true, "\(list.problem ?? "none")")
    #expect(list.contacts.map(\.name) == ["Ada"])
    // The other models can still be read.
    #expect(try await repository.find(by: "ada")?.name == "Ada")
    await list.remove("eve")
    #expect(list.problem == nil && list.contacts.map(\.name) == ["Ada"])
    try await repository.keyspace.store.close()
  }

  /// A user with files of the original moves to the port.
  @MainActor
  @Test func theFileOfTheOriginalCanBeTakenOver() async throws {
    let original = ContactsOriginal.ContactList(
      ContactsOriginal.LocalRepository(directory: folder.url, filename: "contacts"))
    for name in ["Ada", "Grace"] {
      await original.add(ContactsOriginal.Contact(id: name, name: name))
    }
    let repository = try Moraine.LocalRepository<ContactsPort.Contact>(
      directory: folder.url, filename: "contacts")
    let file = folder.url.appendingPathComponent("contacts.json")
    #expect(try await repository.importArray(from: file) == 2)
    #expect(try await repository.importArray(from: file) == 0)
    let list = ContactsPort.ContactList(repository)
    await list.load()
    #expect(list.contacts.map(\.name) == original.contacts.map(\.name))
    try await repository.keyspace.store.close()
  }
}
