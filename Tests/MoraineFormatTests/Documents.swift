/// Made-up values that resemble real ones.
enum Documents {
  /// Returns JSON objects of about 150 bytes, with the same fields and different contents.
  static func users(count: Int, seed: UInt64) -> [[UInt8]] {
    var generator = SeededGenerator(seed: seed)
    let names = ["Ada", "Grace", "Edsger", "Barbara", "Donald", "Tony", "Leslie", "Radia"]
    let cities = ["London", "New York", "Rotterdam", "Boston", "Palo Alto", "Vienna", "Oslo"]
    return (0..<count).map { _ in
      let name = names.randomElement(using: &generator)!
      let number = generator.next() % 1_000_000
      return Array(
        """
        {"id":\(number),"name":"\(name)","email":"\(name)\(number)@example.com",\
        "city":"\(cities.randomElement(using: &generator)!)","active":\(number % 2 == 0),\
        "created":\(1_700_000_000 + number),"roles":["reader"]}
        """.utf8)
    }
  }
}
