import Observation

/// The view model of a list of contacts.
@MainActor @Observable
final class ContactList {
  private(set) var contacts: [Contact] = []
  /// Why the last action failed; nil when it did not.
  private(set) var problem: String?
  private let repository: LocalRepository<Contact>

  init(_ repository: LocalRepository<Contact>) {
    self.repository = repository
  }

  func load() async {
    await update {}
  }

  func add(_ contact: Contact) async {
    await update { try await repository.save(contact) }
  }

  func rename(_ id: Contact.ID, to name: String) async {
    await update {
      guard var contact = await repository.find(by: id) else { return }
      contact.name = name
      try await repository.save(contact)
    }
  }

  func remove(_ id: Contact.ID) async {
    await update { try await repository.delete(id) }
  }

  /// Does something, and shows what is there then.
  private func update(_ action: @MainActor () async throws -> Void) async {
    do {
      try await action()
      contacts = await repository.loadAll().sorted { $0.name < $1.name }
      problem = nil
    } catch {
      problem = "\(error)"
    }
  }
}
