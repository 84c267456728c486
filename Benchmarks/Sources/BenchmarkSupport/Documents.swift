/// JSON documents of 175 bytes, with the same fields and different values.
package struct Documents {
  package static let lengthBytes = 175
  private static let first = [
    "Ada", "Alan", "Barbara", "Donald", "Edsger", "Frances", "Grace", "John", "Leslie", "Margaret",
  ]
  private static let last = [
    "Allen", "Dijkstra", "Gray", "Hamilton", "Hopper", "Knuth", "Lamport", "Liskov", "Turing",
  ]
  private static let cities = [
    "Amsterdam", "Berlin", "Bergen", "Kyoto", "Lagos", "Lima", "Oslo", "Pune", "Turin",
    "Wellington",
  ]
  private static let words = [
    "asked", "about", "the", "invoice", "twice", "and", "never", "called", "back", "wants", "a",
    "refund", "prefers", "mail", "before", "noon", "moved", "last", "year",
  ]
  private var generator: SplitMix64

  package init(seed: UInt64) { generator = SplitMix64(seed: seed) }

  /// - Parameter number: has at most nine digits.
  package mutating func next(_ number: Int) -> [UInt8] {
    let first = pick(Self.first)
    let last = pick(Self.last)
    let address = "\(first.prefix(1).lowercased())\(last.lowercased())\(random(100))"
    let head = """
      {"id":\(number),"name":"\(first) \(last)","email":"\(address)@example.org",\
      "city":"\(pick(Self.cities))","active":\(random(10) > 2),"joined":"20\(random(10) + 15)-\
      \(random(9) + 1)-\(random(28) + 1)","score":\(random(100)).\(random(90) + 10),"note":"
      """
    let tail = "\"}"
    var text = head
    while text.utf8.count < Self.lengthBytes { text += pick(Self.words) + " " }
    return Array(text.utf8.prefix(Self.lengthBytes - tail.utf8.count)) + Array(tail.utf8)
  }

  private mutating func random(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &generator) }

  private mutating func pick(_ texts: [String]) -> String { texts[random(texts.count)] }
}
