import BenchmarkSupport

/// The workloads of Cooper, Silberstein, Tam, Ramakrishnan and Sears, "Benchmarking cloud serving
/// systems with YCSB", SoCC 2010, except E, which is
/// `ShortRanges`.
///
/// Keys are drawn as in the standard's implementation: zipfian with 0.99, and the popular keys are
/// scattered. In D the latest keys are the popular ones.
struct YCSB: Workload {
  static let name = "YCSB"

  private struct Mix {
    let name: String
    let meaning: String
    /// Number of reads in a hundred operations.
    let reads: Int
    var inserts = 0
    var isReadModifyWrite = false
  }

  private static let mixes = [
    Mix(name: "A", meaning: "half reads, half updates", reads: 50),
    Mix(name: "B", meaning: "95 % reads, 5 % updates", reads: 95),
    Mix(name: "C", meaning: "reads", reads: 100),
    Mix(name: "D", meaning: "95 % reads of what is new, 5 % inserts", reads: 95, inserts: 5),
    Mix(
      name: "F", meaning: "half reads, half read-modify-writes", reads: 50,
      isReadModifyWrite: true),
  ]

  private let count: Int

  init(_ size: Size) { count = size.count / 2 }

  var rows: [Report.Row] {
    [100, 1000].flatMap { length in
      Self.mixes.map {
        row(rowName($0, length), "\($0.meaning); values of \(length) bytes", durability: "none")
      }
    }
  }

  private func rowName(_ mix: Mix, _ length: Int) -> String { "YCSB-\(mix.name) \(length) B" }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    for length in [100, 1000] {
      // The extra keys are for the inserts of D.
      let data = Dataset(count: count + count / 8, valueLength: length)
      let place = try make("ycsb\(length)", in: folder)
      let store = try await maker.open(in: place, SubjectOptions(data))
      for number in 0..<count { try await store.put(data.key(number), data.value(number)) }
      var state = State(data: data, count: count)
      try await run(store, store, recorder.engine, length, &state, &recorder)
      // The same again, on the store that the first rows have left.
      if let live = store.live {
        try await run(store, live, LiveMaker.engine.name, length, &state, &recorder)
      }
      try await store.close()
    }
  }

  /// Measures the rows of one length of the values.
  ///
  /// - Parameter reading: makes the readers of the rows.
  private func run<Made: Subject, Maker: ReaderMaker>(
    _ store: Made, _ reading: Maker, _ engine: String, _ length: Int, _ state: inout State,
    _ recorder: inout Recorder
  ) async throws {
    for mix in Self.mixes {
      var isRight = true
      let row = rowName(mix, length)
      try await recorder.time(row, count, engine: engine) {
        isRight = try await run(mix, store, try await reading.reader(), &state)
      }
      try recorder.check(isRight, row)
    }
  }

  private struct State {
    let data: Dataset
    /// Number of stored keys.
    var count: Int
    var generations: [UInt8]
    let zipfian: Zipfian
    var generator = SplitMix64(seed: 7)

    init(data: Dataset, count: Int) {
      self.data = data
      self.count = count
      generations = [UInt8](repeating: 0, count: data.count)
      zipfian = Zipfian(count: count)
    }

    /// Returns a key by its popularity. Popular keys are scattered.
    mutating func next() -> Int {
      let rank = UInt64(zipfian.next(&generator))
      var mixed = rank &* 0xFF51_AFD7_ED55_8CCD
      mixed ^= mixed >> 33
      return Int(mixed % UInt64(zipfian.itemCount))
    }

    mutating func nextLatest() -> Int { count - 1 - zipfian.next(&generator) }
  }

  private func run<Made: Subject, Reader: SubjectReader>(
    _ mix: Mix, _ store: Made, _ given: Reader, _ state: inout State
  ) async throws -> Bool {
    var reader = given
    defer { reader.close() }
    let data = state.data
    var isRight = true
    var isStale = false
    for _ in 0..<count {
      let choice = Int(state.generator.next() % 100)
      let isRead = choice < mix.reads
      if !isRead && mix.inserts > 0 && state.count < data.count {
        try await store.put(data.key(state.count), data.value(state.count))
        state.count += 1
        isStale = true
        continue
      }
      let number = mix.inserts > 0 ? state.nextLatest() : state.next()
      let generation = Int(state.generations[number])
      if isRead || mix.isReadModifyWrite {
        if isStale { try await reader.refresh() }
        isStale = false
        let value = data.value(number, generation: generation)
        if try await !reader.has(data.key(number), value) { isRight = false }
      }
      if !isRead {
        state.generations[number] &+= 1
        let value = data.value(number, generation: Int(state.generations[number]))
        try await store.put(data.key(number), value)
        isStale = true
      }
    }
    return isRight
  }
}
