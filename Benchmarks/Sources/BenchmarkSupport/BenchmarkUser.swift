/// A typical JSON record of an app.
package struct BenchmarkUser: Codable, Identifiable, Sendable {
  package let id: Int
  package var name: String
  package var email: String
  package var score: Double
  package var isActive: Bool

  package init(_ id: Int) {
    self.id = id
    name = "User number \(id)"
    email = "user\(id)@example.org"
    score = Double(id % 1_000) / 8
    isActive = id % 3 == 0
  }
}
