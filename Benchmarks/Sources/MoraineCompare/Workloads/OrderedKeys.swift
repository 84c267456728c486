import BenchmarkSupport

/// Ranges of keys, of engines that have their keys in order: keys of 16 bytes, values of 100.
struct OrderedKeys: Workload {
  static let name = "ordered keys"
  let data: Dataset

  init(_ size: Size) { data = Dataset(count: size.count) }

  var rows: [Report.Row] {
    [
      row("ordered put", "puts in random order", durability: "none"),
      row("ordered get", "gets, the value compared"),
      row("seek", "the first entry from a random key on"),
      row("range 10", "ten entries from a random key on"),
      row("range 100", "a hundred entries from a random key on"),
      row("scan keys", "all keys in order, without the values"),
      row("scan values", "all entries in order, of a store that was filled in random order"),
      row("scan overwritten", "the same, after all values were overwritten in random order"),
      row("scan compacted", "the same, after a compaction"),
      row("ordered memory", "anonymous, for each key, after filling and reading", unit: "B"),
      row("ordered open", "close in order, open, one get", unit: "ms"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let place = try make("ordered", in: folder)
    let memory = ThisProcess.anonymousBytes
    let store = try await maker.open(in: place, SubjectOptions(data))
    try await recorder.time("ordered put", data.count) {
      for number in data.order { try await store.put(data.key(number), data.value(number)) }
    }
    try await readSome(store, &recorder)
    if let memory, let now = ThisProcess.anonymousBytes {
      recorder.add("ordered memory", Double(max(0, Int(now) - Int(memory))) / Double(data.count))
    }
    for number in data.order.reversed() {
      try await store.put(data.key(number), data.value(number, generation: 1))
    }
    try await scan(store, "scan overwritten", &recorder)
    try await store.compact()
    try await scan(store, "scan compacted", &recorder)
    try await store.close()
    let milliseconds = try await recorder.open(
      maker, place, data, data.value(0, generation: 1), of: 0)
    recorder.add("ordered open", milliseconds)
  }

  private func readSome(_ store: some Subject, _ recorder: inout Recorder) async throws {
    var reader = try await store.reader()
    var isRight = true
    try await recorder.time("ordered get", data.count) {
      for number in data.order
      where try await !reader.has(data.key(number), data.value(number)) {
        isRight = false
      }
    }
    try await reader.refresh()
    for (row, limit, share) in [("seek", 1, 1), ("range 10", 10, 2), ("range 100", 100, 10)] {
      let starts = data.order.prefix(data.count / share)
      var count = 0
      try await recorder.time(row, starts.count) {
        for number in starts {
          count += try await reader.range(
            from: data.key(number), limit: limit, readsValues: true
          ).count
        }
      }
      let expected = starts.reduce(0) { $0 + min(limit, data.count - $1) }
      isRight = isRight && count == expected
    }
    var keys = ScanSum()
    try await recorder.time("scan keys", data.count) {
      keys = try await reader.range(from: nil, limit: .max, readsValues: false)
    }
    reader.close()
    try recorder.check(isRight && keys.count == data.count, "ordered keys")
    try await scan(store, "scan values", &recorder)
  }

  private func scan(_ store: some Subject, _ row: String, _ recorder: inout Recorder) async throws {
    var reader = try await store.reader()
    var sum = ScanSum()
    try await recorder.time(row, data.count) {
      sum = try await reader.range(from: nil, limit: .max, readsValues: true)
    }
    reader.close()
    try recorder.check(sum.count == data.count, row)
  }
}
