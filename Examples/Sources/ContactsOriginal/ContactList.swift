import Observation

/// The view model of a list of contacts.
@MainActor @Observable
final class ContactList {
  private(set) var contacts: [Contact] = []
  /// Error of the last action; nil when it succeeded.
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

  /// Performs an action, then shows the stored contacts.
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
