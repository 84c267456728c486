import MoraineTesting

/// The expected contents of a store that ``DriveScript`` drives.
struct DriveModel: KillModel {
  /// One put, one delete (a change without a value), or a batch of several.
  struct Operation: Sendable {
    var changes: [(key: [UInt8], value: [UInt8]?)]
  }

  private(set) var values: [[UInt8]: [UInt8]] = [:]
  private var digest = DriveDigest()

  mutating func apply(_ operation: Operation) {
    for (key, value) in operation.changes {
      if let old = values[key] { digest.remove(key: key, value: old) }
      values[key] = value
      if let value { digest.add(key: key, value: value) }
    }
  }

  /// The answer of `scan` on a store with these contents.
  var scanAnswer: String { digest.text }
}

/// The operation of each number, the same for the same seed: a value found in a store identifies
/// the operation that wrote it.
struct DriveOperations {
  /// A small number of keys, so that most are overwritten and deleted many times.
  static let keyCount = 300

  let seed: UInt64

  static func key(_ number: Int) -> [UInt8] { Array("key\(number)".utf8) }

  /// Returns the operation of a number. A value begins with two bytes, the place in the batch, and
  /// six bytes, the number. Bytes that compress well or badly follow.
  func operation(_ number: UInt64) -> DriveModel.Operation {
    // Used directly, neighbouring seeds would produce the same sequence, shifted by one step.
    var numbered = SeededGenerator(seed: seed ^ number)
    var generator = SeededGenerator(seed: numbered.next())
    let isBatch = Int.random(in: 0..<5, using: &generator) == 0
    let count = isBatch ? Int.random(in: 2...5, using: &generator) : 1
    return DriveModel.Operation(
      changes: (0..<count).map { place in
        let key = Self.key(.random(in: 0..<Self.keyCount, using: &generator))
        let kind = Int.random(in: 0..<100, using: &generator)
        if kind < 25 { return (key, nil) }
        if kind < 28 { return (key, []) }
        let mark = UInt64(place) << 48 | number
        return (key, withUnsafeBytes(of: mark.bigEndian, Array.init) + filler(&generator))
      })
  }

  private func filler(_ generator: inout SeededGenerator) -> [UInt8] {
    // One record in 400 is larger than the segments of the test.
    let isLarge = Int.random(in: 0..<400, using: &generator) == 0
    let length = isLarge ? 20_000 : Int.random(in: 0..<40, using: &generator)
    let part = (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
    let times = isLarge ? 1 : Int.random(in: 1...5, using: &generator)
    return Array(repeatElement(part, count: times).joined())
  }

  /// Returns whether one of the operations up to a number wrote this value.
  func contains(key: [UInt8], value: [UInt8], upTo last: UInt64) -> Bool {
    guard value.count >= 8 else { return value.isEmpty }
    let mark = value.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    let (place, number) = (Int(mark >> 48), mark & 0xFFFF_FFFF_FFFF)
    guard number <= last else { return false }
    let changes = operation(number).changes
    return place < changes.count && changes[place].key == key && changes[place].value == value
  }
}
