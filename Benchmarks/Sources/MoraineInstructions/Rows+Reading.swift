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
      // These keys are not stored: only the first `unit` keys are.
      let key = material.keys[Self.unit + number % Self.unit]
      guard try await store.value(forKey: key) == nil else { throw WrongAnswer("getMissing") }
    }
  }

  func getSnapshot(_ snapshot: Store.Snapshot, _ count: Int) throws {
    for number in 0..<count {
      try check(try snapshot.value(forKey: key(number)), number, .getSnapshot)
    }
  }

  func getReader(_ reader: Store.Reader, _ count: Int) throws {
    for number in 0..<count {
      try check(try reader.value(forKey: key(number)), number, .getReader)
    }
  }

  func getMany(_ snapshot: Store.Snapshot, _ count: Int) throws {
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

  /// - Returns: the number of records with the right value; a wrong value ends the scan.
  private func scan(once store: Store) async throws -> Int {
    let tally = Tally()
    try await store.scan { [material] entry in
      // The log has the order in which the keys were put.
      guard isSame(entry.value, material.value(tally.count)) else { return false }
      tally.count += 1
      return true
    }
    return tally.count
  }

  func scanSnapshot(_ snapshot: Store.Snapshot, _ count: Int) throws {
    for _ in 0..<count / Self.unit {
      var number = 0
      try snapshot.scan { entry in
        guard isSame(entry.value, material.value(number)) else { return false }
        number += 1
        return true
      }
      guard number == Self.unit else { throw WrongAnswer("scanSnapshot") }
    }
  }

  func scanLent(_ snapshot: Store.Snapshot, _ count: Int) throws {
    for _ in 0..<count / Self.unit {
      var number = 0
      try snapshot.scanSpans { _, value in
        guard value.byteCount == material.value(number).count else { return false }
        number += 1
        return true
      }
      guard number == Self.unit else { throw WrongAnswer("scanLent") }
    }
  }

  func get(_ keyspace: Keyspace, _ count: Int) async throws {
    for number in 0..<count {
      try check(try await keyspace.value(forKey: key(number)), number, .orderedGet)
    }
  }

  func orderedScan(_ snapshot: Store.Snapshot, _ count: Int) throws {
    for _ in 0..<count / Self.unit {
      var (number, length) = (0, 0)
      try snapshot.scanSpans(in: .all) { key, value in
        number += 1
        length += key.byteCount + value.byteCount
        return true
      }
      guard number == Self.unit, length == totalLength else { throw WrongAnswer("orderedScan") }
    }
  }

  func orderedKeys(_ snapshot: Store.Snapshot, _ count: Int) throws {
    for _ in 0..<count / Self.unit {
      var number = 0
      try snapshot.scanKeys(in: .all) { key in
        number += key.isEmpty ? 0 : 1
        return true
      }
      guard number == Self.unit else { throw WrongAnswer("orderedKeys") }
    }
  }

  /// Counts each entry of ranges of ten.
  func orderedRange(_ snapshot: Store.Snapshot, _ count: Int) throws {
    for start in 0..<count / 10 {
      var number = 0
      try snapshot.scanSpans(in: KeyRange(from: rangeStarts[start % rangeStarts.count])) { _, _ in
        number += 1
        return number < 10
      }
      guard number == 10 else { throw WrongAnswer("orderedRange") }
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

/// Counts records in a closure that runs in the store's actor.
private final class Tally: @unchecked Sendable {
  var count = 0
}
