import BenchmarkSupport
import Foundation

/// Ranges of keys that were put in random order, and YCSB-E, of engines that have their keys in
/// order.
struct OrderedKeys: Workload {
  static let name = "ordered keys"
  private let count: Int

  init(_ size: Size) { count = size.count }

  var rows: [Report.Row] {
    [
      row("ordered put", "puts in random order", durability: "none"),
      row("ordered get", "gets in random order, the value compared"),
      row("seek", "the first entry from a random key on"),
      row("range 10", "ten entries from a random key on"),
      row("range 100", "a hundred entries from a random key on"),
      row("scan keys", "all keys in order, without the values"),
      row("scan values", "all entries in order, of a store that was filled in random order"),
      row("scan overwritten", "the same, after all values were overwritten in random order"),
      row("scan compacted", "the same, after a compaction, the second scan"),
      row("ordered memory", "anonymous, for each key, after filling and reading", unit: "B"),
      row("ordered open", "close in order, open, one get", unit: "ms"),
    ]
      + Self.shortRanges.map {
        row(
          $0.row, "95 % ranges of 1 to 100 entries, 5 % inserts; values of \($0.length) bytes",
          durability: "none")
      }
  }

  /// The rows of YCSB-E. Both stores have about the same number of bytes.
  private static let shortRanges = [
    (row: "YCSB-E 100 B", length: 100, share: 1), (row: "YCSB-E 1000 B", length: 1000, share: 10),
  ]

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let place = try make("ordered", in: folder)
    try await ranges(maker, place, &recorder)
    try FileManager.default.removeItem(atPath: place)
    for (row, length, share) in Self.shortRanges {
      let workload = ShortRanges(row: row, count: count / share, valueLength: length)
      let place = try make("short\(length)", in: folder)
      try await workload.run(maker, in: place, &recorder)
      try FileManager.default.removeItem(atPath: place)
    }
  }

  private func ranges<Maker: SubjectMaker>(
    _ maker: Maker, _ place: String, _ recorder: inout Recorder
  ) async throws {
    let data = Dataset(count: count)
    let rows = RangeRows(data)
    let memory = ThisProcess.anonymousBytes
    let store = try await maker.open(in: place, SubjectOptions(data))
    try await rows.put(store, "ordered put", data.order, &recorder)
    try await rows.get(store, "ordered get", data.order, &recorder)
    try await rows.fromRandomKeys(store, "", &recorder)
    try await rows.scanKeys(store, "scan keys", &recorder)
    try await rows.scan(store, "scan values", generation: 0, &recorder)
    recorder.addMemory("ordered memory", since: memory, data.count)
    try await rows.overwrite(store, data.order.reversed())
    try await rows.scan(store, "scan overwritten", generation: 1, &recorder)
    try await store.compact()
    try await rows.scan(
      store, "scan compacted", generation: 1, isRepeated: true, &recorder)
    try await store.close()
    let value = data.value(0, generation: 1)
    recorder.add("ordered open", try await recorder.open(maker, place, data, value, of: 0))
  }
}
