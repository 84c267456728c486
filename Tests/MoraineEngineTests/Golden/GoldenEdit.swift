import MoraineTesting

/// A random change of one file of a golden store.
struct GoldenEdit {
  let name: String
  let bytes: [UInt8]
  /// All bytes before this place are unchanged.
  let place: Int
  let what: String

  init(_ golden: GoldenStore, seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    func number(below limit: Int) -> Int { Int(random.next() % UInt64(max(limit, 1))) }
    let names = golden.files.keys.sorted()
    name = names[number(below: names.count)]
    let original = golden.files[name]!
    let start = number(below: original.count)
    let length = 1 + number(below: min(original.count - start, 1 << number(below: 9)))
    let other = golden.files[names[number(below: names.count)]]!
    let source = number(below: other.count)
    var bytes = original
    switch number(below: 6) {
    case 0:
      what = "\(length) bytes at \(start) became noise"
      for place in start..<start + length { bytes[place] = UInt8(number(below: 256)) }
    case 1:
      what = "\(length) bytes at \(start) became zero"
      for place in start..<start + length { bytes[place] = 0 }
    case 2:
      what = "\(length) bytes at \(start) were taken out"
      bytes.removeSubrange(start..<start + length)
    case 3:
      what = "\(length) bytes at \(start) came in"
      bytes.insert(contentsOf: other[source...].prefix(length), at: start)
    case 4:
      what = "\(length) bytes at \(start) came from another place"
      let piece = other[source...].prefix(length)
      bytes.replaceSubrange(start..<start + piece.count, with: piece)
    default:
      what = "from \(start) on it is noise"
      bytes = original[..<start] + (0..<number(below: 200)).map { _ in UInt8(number(below: 256)) }
    }
    self.bytes = bytes
    place =
      zip(original, bytes).enumerated().first { $1.0 != $1.1 }?.offset
      ?? min(original.count, bytes.count)
  }
}
