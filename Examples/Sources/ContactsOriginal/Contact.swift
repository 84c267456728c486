/// Somebody one knows.
struct Contact: Codable, Identifiable, Equatable, Sendable {
  let id: String
  var name: String
}
