import BenchmarkSupport

/// The measurements that the groups of ordered keys have in common. They check each answer after
/// the time is taken.
struct RangeRows: Sendable {
  /// Number of seeks at most. More of them would take long in a large store, and tell no more.
  private static let seekLimit = 1_000_000
  private let data: Dataset

  init(_ data: Dataset) { self.data = data }

  func put(
    _ store: some Subject, _ row: String, _ numbers: [Int], _ recorder: inout Recorder
  ) async throws {
    try await recorder.time(row, numbers.count) {
      for number in numbers { try await store.put(data.key(number), data.value(number)) }
    }
  }

  /// Puts the value of generation 1 of each key.
  func overwrite(_ store: some Subject, _ numbers: [Int]) async throws {
    for number in numbers {
      try await store.put(data.key(number), data.value(number, generation: 1))
    }
  }

  func get(
    _ store: some Subject, _ row: String, _ numbers: [Int], _ recorder: inout Recorder
  ) async throws {
    var reader = try await store.reader()
    var isRight = true
    try await recorder.time(row, numbers.count) {
      for number in numbers
      where try await !reader.has(data.key(number), data.value(number)) {
        isRight = false
      }
    }
    reader.close()
    try recorder.check(isRight, row)
  }

  /// Measures seeks and ranges of ten and of a hundred entries.
  func fromRandomKeys(
    _ store: some Subject, _ prefix: String, _ recorder: inout Recorder
  ) async throws {
    for (row, limit, share) in [("seek", 1, 1), ("range 10", 10, 2), ("range 100", 100, 10)] {
      let starts = Array(data.order.prefix(min(data.count, Self.seekLimit) / share))
      try await ranges(store, prefix + row, starts, limit: limit, &recorder)
    }
  }

  /// Measures ranges of `limit` entries from each of these keys on.
  func ranges(
    _ store: some Subject, _ row: String, _ starts: [Int], limit: Int, _ recorder: inout Recorder
  ) async throws {
    var reader = try await store.reader()
    var sum = ScanSum()
    try await recorder.time(row, starts.count) {
      for number in starts {
        sum += try await reader.range(from: data.key(number), limit: limit, readsValues: true)
      }
    }
    reader.close()
    var expected = ScanSum()
    for number in starts {
      expected += data.sum(of: number..<min(number + limit, data.count))
    }
    try recorder.check(sum == expected, row)
  }

  func scanKeys(
    _ store: some Subject, _ row: String, _ recorder: inout Recorder
  ) async throws {
    var reader = try await store.reader()
    var sum = ScanSum()
    try await recorder.time(row, data.count) {
      sum = try await reader.range(from: nil, limit: .max, readsValues: false)
    }
    reader.close()
    var expected = ScanSum()
    for number in 0..<data.count { data.key(number).withBytes { expected.add(key: $0) } }
    try recorder.check(sum == expected, row)
  }

  /// - Parameter isRepeated: whether another scan comes first, whose time does not count. After a
  ///   compaction, files and mappings are new; for LMDB the benchmark must open them again.
  func scan(
    _ store: some Subject, _ row: String, generation: Int, isRepeated: Bool = false,
    _ recorder: inout Recorder
  ) async throws {
    var reader = try await store.reader()
    var sum = ScanSum()
    if isRepeated { _ = try await reader.range(from: nil, limit: .max, readsValues: true) }
    try await recorder.time(row, data.count) {
      sum = try await reader.range(from: nil, limit: .max, readsValues: true)
    }
    reader.close()
    try recorder.check(sum == data.sum(of: 0..<data.count, generation: generation), row)
  }
}

extension Dataset {
  /// Returns the sum of these entries, as a correct engine reads them.
  func sum(of numbers: Range<Int>, generation: Int = 0) -> ScanSum {
    var sum = ScanSum()
    for number in numbers {
      key(number).withBytes { key in
        value(number, generation: generation).withUnsafeBytes { sum.add(key, $0) }
      }
    }
    return sum
  }
}

extension Recorder {
  /// Adds the anonymous memory for each key that the process has gained.
  mutating func addMemory(_ row: String, since before: UInt64?, _ count: Int) {
    guard let before, let now = ThisProcess.anonymousBytes else { return }
    add(row, Double(max(0, Int(now) - Int(before))) / Double(count))
  }
}
