/// A person in the list of contacts.
struct Contact: Codable, Identifiable, Equatable, Sendable {
  let id: String
  var name: String
}
