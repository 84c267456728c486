import Moraine
import Observation

/// Executes lines, and prints the list whenever it changes.
@MainActor
final class Session {
  let people: LocalRepository<Person>
  let model: PeopleList
  let print: (String) -> Void
  private var printed: String?

  init(_ people: LocalRepository<Person>, print: @escaping (String) -> Void) {
    self.people = people
    self.print = print
    model = PeopleList(people)
  }

  /// Builds the indexes. The lists would be right without this, but the first ones would decode all
  /// people.
  func prepare() async {
    do { try await people.buildIndexes() } catch {
      // A program that does not know the indexes may have given an address to two people. Lists
      // are right nevertheless, and the index is complete when one of them has another address.
      print(
        error.duplicate.map { "'\($0.key)' has the email address of '\($0.holder)'" } ?? "\(error)")
    }
  }

  /// Prints the list after each change, as a view would show it, until the task is cancelled.
  func follow() async {
    while !Task.isCancelled {
      await withCheckedContinuation { continuation in
        withObservationTracking {
          show()
        } onChange: {
          continuation.resume()
        }
      }
    }
  }

  /// The list as one line; nil while it is loaded.
  private var text: String? {
    switch model.list.phase {
    case .loading: nil
    case .failed(let error): "the list cannot be read: \(error)"
    case .loaded:
      model.rows.isEmpty
        ? "no people" : model.rows.map { "\($0.name) (\($0.city))" }.joined(separator: ", ")
    }
  }

  private func show() {
    guard let text, text != printed else { return }
    printed = text
    print(text)
  }

  /// Executes one line.
  func perform(_ line: String) async {
    let words = line.split(separator: " ").map(String.init)
    do {
      switch (words.first, words.count) {
      case ("add", 4):
        try await people.save(
          Person(id: words[1], name: words[2], city: words[3], email: "\(words[1])@example.org"))
      case ("email", 3): try await change(words[1]) { $0.email = words[2] }
      case ("move", 3): try await change(words[1]) { $0.city = words[2] }
      case ("remove", 2): try await people.delete(words[1])
      case ("city", 2): model.show(city: words[1])
      case ("search", 2): model.search(words[1])
      default:
        print(
          "type 'add ID NAME CITY', 'move ID CITY', 'email ID ADDRESS', 'remove ID', 'city CITY' "
            + "or 'search TEXT'")
      }
    } catch let error as StoreError where error.code == .notUnique {
      print("'\(error.duplicate?.holder.description ?? "another person")' has that email address")
    } catch {
      print("\(error)")
    }
  }

  private func change(_ id: Person.ID, _ body: @Sendable (inout Person) -> Void) async throws {
    guard var person = try await people.find(by: id) else {
      print("there is no '\(id)'")
      return
    }
    body(&person)
    try await people.save(person)
  }
}
