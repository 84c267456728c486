import BenchmarkSupport

/// Real JSON records: Debian's package index, about 900 bytes each.
struct Records: Workload {
  static let name = "JSON records"
  let limit: Int

  init(_ size: Size) { limit = size.recordLimit }

  var rows: [Report.Row] {
    [
      row("JSON put", "each once", durability: "none"),
      row("JSON get", "in random order, the value compared"),
      row("JSON disk", "bytes on disk for each byte of JSON, filled", unit: "×"),
      row("JSON disk, compacted", "the same, as small as it becomes", unit: "×"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    guard let records = try await PackageRecords(limit: limit) else { return }
    let documents = records.documents
    let bytes = Double(records.bytes)
    // A data set of the right number and size. Only its keys are used, not its values.
    let data = Dataset(count: documents.count, valueLength: records.bytes / documents.count)
    let place = try make("records", in: folder)
    let store = try await maker.open(in: place, SubjectOptions(data))
    try await recorder.time("JSON put", documents.count) {
      for number in documents.indices {
        try await store.put(data.key(number), documents[number])
      }
    }
    recorder.add("JSON disk", Double(try diskBytes(place)) / bytes)
    try await store.compact()
    recorder.add("JSON disk, compacted", Double(try diskBytes(place)) / bytes)
    try await read(store, recorder.engine, data, documents, &recorder)
    if let snapshots = store.snapshots {
      try await read(snapshots, SnapshotMaker.engine.name, data, documents, &recorder)
    }
    try await store.close()
  }

  private func read<Maker: ReaderMaker>(
    _ maker: Maker, _ engine: String, _ data: Dataset, _ documents: [[UInt8]],
    _ recorder: inout Recorder
  ) async throws {
    var reader = try await maker.reader()
    var isRight = true
    try await recorder.time("JSON get", data.count, engine: engine) {
      for number in data.order
      where try await !reader.has(data.key(number), documents[number]) {
        isRight = false
      }
    }
    reader.close()
    try recorder.check(isRight, "JSON get")
  }
}
