import BenchmarkSupport
import Foundation

/// Ranges of keys that were put in their order, as keys that begin with a time are, of engines that
/// have their keys in order.
struct AscendingKeys: Workload {
  static let name = "ascending keys"
  private static let batchCount = 1000
  private let count: Int

  init(_ size: Size) { count = size.count }

  var rows: [Report.Row] {
    [
      row("ascending load", "puts in the order of the keys, 1000 in one batch", durability: "none"),
      row("ascending put", "single puts in the order of the keys", durability: "none"),
      row("ascending get", "gets in the order of the keys, the value compared"),
      row("ascending random get", "gets in random order"),
      row("ascending seek", "the first entry from a random key on"),
      row("ascending range 10", "ten entries from a random key on"),
      row("ascending range 100", "a hundred entries from a random key on"),
      row("ascending page 10", "the ten entries after those of the call before"),
      row("ascending page 100", "the hundred entries after those of the call before"),
      row("ascending scan keys", "all keys in order, without the values"),
      row("ascending scan values", "all entries in order"),
      row("ascending overwritten", "the same, after all values were overwritten in key order"),
      row("ascending compacted", "the same, after a compaction, the second scan"),
      row("ascending memory", "anonymous, for each key, after filling and reading", unit: "B"),
      row("ascending open", "close in order, open, one get", unit: "ms"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let data = Dataset(count: count)
    let place = try make("single", in: folder)
    try await single(maker, data, place, &recorder)
    try FileManager.default.removeItem(atPath: place)
    try await load(maker, data, try make("load", in: folder), &recorder)
  }

  private func single<Maker: SubjectMaker>(
    _ maker: Maker, _ data: Dataset, _ place: String, _ recorder: inout Recorder
  ) async throws {
    let rows = RangeRows(data)
    let ascending = Array(0..<data.count)
    let memory = ThisProcess.anonymousBytes
    let store = try await maker.open(in: place, SubjectOptions(data))
    try await rows.put(store, "ascending put", ascending, &recorder)
    try await rows.get(store, "ascending get", ascending, &recorder)
    try await rows.get(store, "ascending random get", data.order, &recorder)
    try await rows.fromRandomKeys(store, "ascending ", &recorder)
    for limit in [10, 100] {
      let starts = Array(stride(from: 0, to: data.count, by: limit))
      try await rows.ranges(store, "ascending page \(limit)", starts, limit: limit, &recorder)
    }
    try await rows.scanKeys(store, "ascending scan keys", &recorder)
    try await rows.scan(store, "ascending scan values", generation: 0, &recorder)
    recorder.addMemory("ascending memory", since: memory, data.count)
    try await rows.overwrite(store, ascending)
    try await rows.scan(store, "ascending overwritten", generation: 1, &recorder)
    try await store.compact()
    try await rows.scan(
      store, "ascending compacted", generation: 1, isRepeated: true, &recorder)
    try await store.close()
    let value = data.value(0, generation: 1)
    recorder.add("ascending open", try await recorder.open(maker, place, data, value, of: 0))
  }

  private func load<Maker: SubjectMaker>(
    _ maker: Maker, _ data: Dataset, _ place: String, _ recorder: inout Recorder
  ) async throws {
    var options = SubjectOptions(data)
    options.appends = true
    let store = try await maker.open(in: place, options)
    try await recorder.time("ascending load", data.count) {
      for start in stride(from: 0, to: data.count, by: Self.batchCount) {
        let numbers = start..<min(start + Self.batchCount, data.count)
        try await store.put(numbers, of: data, generation: 0)
      }
    }
    var reader = try await store.reader()
    let sum = try await reader.range(from: nil, limit: .max, readsValues: true)
    reader.close()
    try recorder.check(sum == data.sum(of: 0..<data.count), "ascending load")
    try await store.close()
  }
}
