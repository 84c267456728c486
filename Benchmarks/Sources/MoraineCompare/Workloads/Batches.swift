import BenchmarkSupport

/// Puts a thousand keys at a time, each thousand as an atomic batch.
struct Batches: Workload {
  static let name = "batches"
  private static let batchCount = 1000
  let data: Dataset

  init(_ size: Size) { data = Dataset(count: size.count) }

  var rows: [Report.Row] {
    [
      row("fillbatch1000", "puts in random order, 1000 in one batch", durability: "none"),
      row("fillbatch1000 sync", "the same, each batch durable", durability: "sync"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    try await fill(maker, try make("none", in: folder), sync: false, "fillbatch1000", &recorder)
    try await fill(maker, try make("sync", in: folder), sync: true, "fillbatch1000 sync", &recorder)
  }

  private func fill<Maker: SubjectMaker>(
    _ maker: Maker, _ place: String, sync: Bool, _ row: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: place, SubjectOptions(data, sync: sync))
    let count = sync ? max(Self.batchCount, data.count / 10) : data.count
    try await recorder.time(row, count) {
      for start in stride(from: 0, to: count, by: Self.batchCount) {
        let numbers = data.order[start..<min(start + Self.batchCount, count)]
        try await store.put(numbers, of: data, generation: 0)
      }
    }
    var reader = try await store.reader()
    for number in data.order[..<count].prefix(1000) {
      try recorder.check(try await reader.has(data.key(number), data.value(number)), row)
    }
    reader.close()
    try await store.close()
  }
}
