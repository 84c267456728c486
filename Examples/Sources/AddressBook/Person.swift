import Moraine

/// A person of the address book.
struct Person: Codable, Identifiable, Equatable, Sendable {
  /// The name that the user types, such as "ada".
  let id: String
  var name: String
  var city: String
  var email: String

  /// What lists filter and sort by.
  static let indexes: [ModelIndex<Person>] = [
    .index("city, name", on: \.city, \.name),
    .index("name", on: \.name),
    .unique("email", on: \.email),
  ]
}
