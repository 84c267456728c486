import BenchmarkSupport

/// The rows of redb's benchmark: keys of 24 bytes and values of 150, without repetitions.
struct RedbStyle: Workload {
  static let name = "redb-bench"
  let data: Dataset
  let commitCount: Int

  init(_ size: Size) {
    data = Dataset(count: size.count, keyLength: 24, valueLength: 150, isCompressible: false)
    commitCount = size.commitCount / 2
  }

  var rows: [Report.Row] {
    [
      row("24/150 bulk load", "in ten batches", durability: "none"),
      row("24/150 random reads", "the value compared"),
      row("24/150 one commit each", "puts, each durable", durability: "sync"),
      row("24/150 remove half", "one delete each", durability: "none"),
      row("24/150 disk", "filled", unit: "MB"),
      row("24/150 disk, compacted", "half of it removed", unit: "MB"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let place = try make("bulk", in: folder)
    let store = try await maker.open(in: place, SubjectOptions(data))
    let part = max(1, data.count / 10)
    try await recorder.time("24/150 bulk load", data.count) {
      for start in stride(from: 0, to: data.count, by: part) {
        let numbers = data.order[start..<min(start + part, data.count)]
        try await store.put(numbers, of: data, generation: 0)
      }
    }
    recorder.add("24/150 disk", Double(try diskBytes(place)) / 1e6)
    var reader = try await store.reader()
    var isRight = true
    try await recorder.time("24/150 random reads", data.count) {
      for number in data.order.reversed()
      where try await !reader.has(data.key(number), data.value(number)) {
        isRight = false
      }
    }
    reader.close()
    try recorder.check(isRight, "24/150 random reads")
    try await recorder.time("24/150 remove half", data.count / 2) {
      for number in data.order where number & 1 == 1 { try await store.remove(data.key(number)) }
    }
    try await store.compact()
    recorder.add("24/150 disk, compacted", Double(try diskBytes(place)) / 1e6)
    try await store.close()
    try await commits(maker, try make("commits", in: folder), &recorder)
  }

  private func commits<Maker: SubjectMaker>(
    _ maker: Maker, _ place: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: place, SubjectOptions(data, sync: true))
    try await recorder.time("24/150 one commit each", commitCount) {
      for number in data.order.prefix(commitCount) {
        try await store.put(data.key(number), data.value(number))
      }
    }
    try await store.close()
  }
}
