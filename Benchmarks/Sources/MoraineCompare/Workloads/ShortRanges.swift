import BenchmarkSupport

/// Workload E of YCSB: 95 % short ranges, 5 % inserts.
///
/// As in the standard's implementation, a range begins at a loaded key that is drawn from a zipfian
/// distribution with 0.99, and has 1 to 100 entries, each number with the same probability. Popular
/// keys are scattered, and so are the inserted ones.
struct ShortRanges: Sendable {
  private static let batchCount = 1000
  private static let stepLimit = 500_000

  /// One operation.
  private struct Step {
    /// Place of the key in the dataset's random order.
    let place: Int
    /// Number of entries to read; 0 for an insert.
    let limit: Int
  }

  private let row: String
  private let count: Int
  private let steps: [Step]
  private let data: Dataset

  /// - Parameter count: number of keys that are stored before the first operation.
  init(row: String, count: Int, valueLength: Int) {
    let zipfian = Zipfian(count: count)
    var generator = SplitMix64(seed: 7)
    var stored = count
    steps = (0..<min(count / 2, Self.stepLimit)).map { _ in
      if generator.next() % 100 < 5 {
        stored += 1
        return Step(place: stored - 1, limit: 0)
      }
      return Step(
        place: zipfian.next(&generator), limit: Int.random(in: 1...100, using: &generator))
    }
    data = Dataset(count: stored, valueLength: valueLength)
    self.row = row
    self.count = count
  }

  /// - Parameter place: an empty folder for the store.
  func run<Maker: SubjectMaker>(
    _ maker: Maker, in place: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: place, SubjectOptions(data))
    for start in stride(from: 0, to: count, by: Self.batchCount) {
      let numbers = data.order[start..<min(start + Self.batchCount, count)]
      try await store.put(numbers, of: data, generation: 0)
    }
    var reader = try await store.reader()
    var sum = ScanSum()
    try await recorder.time(row, steps.count) {
      sum = try await perform(store, &reader)
    }
    reader.close()
    try recorder.check(sum == expected, row)
    try await store.close()
  }

  private func perform<Made: Subject>(
    _ store: Made, _ reader: inout Made.Reader
  ) async throws -> ScanSum {
    var sum = ScanSum()
    var isStale = false
    for step in steps {
      let number = data.order[step.place]
      if step.limit == 0 {
        try await store.put(data.key(number), data.value(number))
        isStale = true
      } else {
        if isStale { try await reader.refresh() }
        isStale = false
        sum += try await reader.range(
          from: data.key(number), limit: step.limit, readsValues: true)
      }
    }
    return sum
  }

  /// The sum of all ranges, as a correct engine reads them.
  private var expected: ScanSum {
    var isStored = [Bool](repeating: false, count: data.count)
    for number in data.order[..<count] { isStored[number] = true }
    var sum = ScanSum()
    for step in steps {
      var number = data.order[step.place]
      if step.limit == 0 { isStored[number] = true }
      var left = step.limit
      while left > 0 && number < data.count {
        if isStored[number] {
          sum += data.sum(of: number..<number + 1)
          left -= 1
        }
        number += 1
      }
    }
    return sum
  }
}
