import BenchmarkSupport

/// Values of a megabyte, without repetitions.
struct LargeValues: Workload {
  static let name = "large values"
  private static let lengthBytes = 1_000_000
  let data: Dataset

  init(_ size: Size) {
    data = Dataset(count: size.largeCount, valueLength: Self.lengthBytes, isCompressible: false)
  }

  var rows: [Report.Row] {
    [
      row("1 MB put", "in random order", durability: "none"),
      row("1 MB get", "the value compared"),
      row("1 MB put, durable", "in random order", durability: "sync"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: try make("large", in: folder), SubjectOptions(data))
    try await recorder.time("1 MB put", data.count) {
      for number in data.order { try await store.put(data.key(number), data.value(number)) }
    }
    try await read(store, recorder.engine, &recorder)
    if let snapshots = store.snapshots {
      try await read(snapshots, SnapshotMaker.engine.name, &recorder)
    }
    try await store.close()
    let place = try make("durable", in: folder)
    let durable = try await maker.open(in: place, SubjectOptions(data, sync: true))
    let count = max(1, data.count / 4)
    try await recorder.time("1 MB put, durable", count) {
      for number in data.order.prefix(count) {
        try await durable.put(data.key(number), data.value(number))
      }
    }
    try await durable.close()
  }

  private func read<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ recorder: inout Recorder
  ) async throws {
    var reader = try await maker.reader()
    var isRight = true
    try await recorder.time("1 MB get", data.count * 4, engine: engine) {
      for _ in 0..<4 {
        for number in data.order
        where try await !reader.has(data.key(number), data.value(number)) {
          isRight = false
        }
      }
    }
    reader.close()
    try recorder.check(isRight, "1 MB get")
  }
}
