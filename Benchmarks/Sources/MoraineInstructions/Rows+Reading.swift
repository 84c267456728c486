import MoraineEngine
import MoraineMaterial

extension Rows {
  func get(_ store: Store, _ count: Int) async throws {
    for number in 0..<count {
      let value = try await store.value(forKey: key(number))
      try check(value, number, .get)
    }
  }

  func getMissing(_ store: Store, _ count: Int) async throws {
    for number in 0..<count {
      // Never stored: only the first keys were, and the rest is more than half of them.
      let key = material.keys[Self.unit + number % Self.unit]
      guard try await store.value(forKey: key) == nil else { throw WrongAnswer("getMissing") }
    }
  }

  func getSnapshot(_ snapshot: Snapshot, _ count: Int) throws {
    for number in 0..<count {
      try check(try snapshot.value(forKey: key(number)), number, .getSnapshot)
    }
  }

  func getMany(_ snapshot: Snapshot, _ count: Int) throws {
    for start in stride(from: 0, to: count, by: Self.batchCount) {
      let first = start % Self.unit
      let keys = Array(material.keys[first..<first + Self.batchCount])
      for (number, value) in zip(start..., try snapshot.values(forKeys: keys)) {
        try check(value, number, .getMany)
      }
    }
  }

  func scan(_ store: Store, _ count: Int) async throws {
    for _ in 0..<count / Self.unit {
      guard try await scan(once: store) == Self.unit else { throw WrongAnswer("scan") }
    }
  }

  /// - Returns: how many records had the right value; a wrong one ends it.
  private func scan(once store: Store) async throws -> Int {
    let tally = Tally()
    try await store.forEach { [material] entry in
      // The order of the log is that in which the keys were put.
      guard isSame(entry.value, material.value(tally.count)) else { return false }
      tally.count += 1
      return true
    }
    return tally.count
  }

  func scanSnapshot(_ snapshot: Snapshot, _ count: Int) throws {
    for _ in 0..<count / Self.unit {
      var number = 0
      try snapshot.forEach { entry in
        guard isSame(entry.value, material.value(number)) else { return false }
        number += 1
        return true
      }
      guard number == Self.unit else { throw WrongAnswer("scanSnapshot") }
    }
  }

  func scanLent(_ snapshot: Snapshot, _ count: Int) throws {
    for _ in 0..<count / Self.unit {
      var number = 0
      try snapshot.forEachSpan { _, value in
        guard value.byteCount == material.value(number).count else { return false }
        number += 1
        return true
      }
      guard number == Self.unit else { throw WrongAnswer("scanLent") }
    }
  }

  @inline(__always)
  private func key(_ number: Int) -> Key { material.keys[number % Self.unit] }

  @inline(__always)
  private func check(_ value: [UInt8]?, _ number: Int, _ row: Row) throws {
    guard let value, isSame(value, material.value(number % Self.unit)) else {
      throw WrongAnswer("\(row)")
    }
  }
}

/// Counts in a closure that goes to the store's actor and comes back.
private final class Tally: @unchecked Sendable {
  var count = 0
}
