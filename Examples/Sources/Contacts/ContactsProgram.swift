import Foundation
import Moraine

/// Uses the list as a person does, and prints its contents. The files are in a new folder, or in
/// the folder that the first argument names.
@main
struct ContactsProgram {
  static func main() async throws {
    let name = CommandLine.arguments.dropFirst().first
    let folder =
      if let name { URL(fileURLWithPath: name, isDirectory: true) } else {
        FileManager.default.temporaryDirectory.appendingPathComponent("contacts-\(UUID())")
      }
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try await session(in: folder)
    if name == nil { try FileManager.default.removeItem(at: folder) }
  }

  @MainActor
  private static func session(in folder: URL) async throws {
    let repository = try LocalRepository<Contact>(directory: folder, filename: "contacts")
    let list = ContactList(repository)
    await list.load()
    show("At the start", list)
    await list.add(Contact(id: "ada", name: "Ada Byron"))
    await list.add(Contact(id: "charles", name: "Charles Babbage"))
    show("Two added", list)
    await list.rename("ada", to: "Ada Lovelace")
    await list.remove("charles")
    show("One renamed, one removed", list)

    // Two windows of one app, each with its own repository for the same file.
    let left = ContactList(try LocalRepository(directory: folder, filename: "contacts"))
    let right = ContactList(try LocalRepository(directory: folder, filename: "contacts"))
    await left.add(Contact(id: "grace", name: "Grace Hopper"))
    await right.add(Contact(id: "barbara", name: "Barbara Liskov"))
    show("A second window adds Grace", left)
    show("A third one adds Barbara", right)
    let next = ContactList(try LocalRepository(directory: folder, filename: "contacts"))
    await next.load()
    show("Opened once more", next)
  }

  @MainActor
  private static func show(_ moment: String, _ list: ContactList) {
    let names = list.contacts.map(\.name).joined(separator: ", ")
    print("\(moment): \(list.problem ?? (names.isEmpty ? "nobody" : names))")
  }
}
