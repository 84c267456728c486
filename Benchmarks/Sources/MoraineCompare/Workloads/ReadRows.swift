import BenchmarkSupport

/// The rows that only read. The store has every key with its first value.
struct ReadRows: Sendable {
  private let data: Dataset

  init(_ data: Dataset) { self.data = data }

  func run<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    try await runSingleGets(maker, engine, &recorder)
    try await many(maker, engine, &recorder)
    try await everything(maker, engine, &recorder)
  }

  func runSingleGets<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    try await random(maker, engine, &recorder)
    for count in [2, 4] { try await random(maker, engine, on: count, &recorder) }
    try await missing(maker, engine, &recorder)
  }

  private func random<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    var reader = try await maker.reader()
    var isRight = true
    try await recorder.time("readrandom", data.count, engine: engine) {
      for number in data.order
      where try await !reader.has(data.key(number), data.value(number)) {
        isRight = false
      }
    }
    reader.close()
    try recorder.check(isRight, "readrandom")
  }

  private func random<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, on count: Int, _ recorder: inout Recorder
  ) async throws {
    let data = data
    let row = "readrandom x\(count)"
    let name = recorder.engine
    let share = data.count / count
    try await recorder.time(row, share * count, engine: engine) {
      try await atOnce(count, onThreads: Maker.blocks) { part in
        var reader = try await maker.reader()
        var isRight = true
        for number in data.order[part * share..<(part + 1) * share]
        where try await !reader.has(data.key(number), data.value(number)) {
          isRight = false
        }
        reader.close()
        if !isRight { throw WrongAnswer(engine: name, row: row) }
      }
    }
  }

  private func many<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    var reader = try await maker.reader()
    var isRight = true
    try await recorder.time("multiget 100", data.count, engine: engine) {
      for start in stride(from: 0, to: data.count, by: 100) {
        let numbers = data.order[start..<min(start + 100, data.count)]
        if try await !reader.has(numbers, of: data, generation: 0) { isRight = false }
      }
    }
    reader.close()
    try recorder.check(isRight, "multiget 100")
  }

  private func missing<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    var reader = try await maker.reader()
    var isRight = true
    try await recorder.time("readmissing", data.count, engine: engine) {
      // The keys are between stored keys, so that a comparison with the first or last key is not
      // enough.
      for number in data.order where try await reader.contains(absent(number)) { isRight = false }
    }
    reader.close()
    try recorder.check(isRight, "readmissing")
  }

  /// Returns a key that differs from a stored key in its last byte, which is no digit.
  @inline(__always)
  private func absent(_ number: Int) -> KeyBytes { data.key(number).absent }

  private func everything<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    var reader = try await maker.reader()
    var sum = ScanSum()
    try await recorder.time("readseq", data.count, engine: engine) { sum = try await reader.scan() }
    reader.close()
    var expected = ScanSum()
    for number in 0..<data.count {
      data.key(number).withBytes { key in
        data.value(number).withUnsafeBytes { expected.add(key, $0) }
      }
    }
    try recorder.check(sum == expected, "readseq")
  }
}
