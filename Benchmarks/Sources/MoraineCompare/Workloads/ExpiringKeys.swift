import BenchmarkSupport
import Foundation

/// Entries that end by themselves: Moraine, which hides them from that millisecond on, and RocksDB
/// with a time to live, which returns them until a compaction drops them.
struct ExpiringKeys: Workload {
  static let name = "expiring keys"
  static let engines = [MoraineMaker.name, "rocksdb"]
  private let count: Int

  init(_ size: Size) { count = size.count }

  var rows: [Report.Row] {
    [
      row("expiring put", "random order, each with an hour to live", durability: "none"),
      row("expiring get", "random order, the value compared"),
      row("expired removed", "everything has ended: remove it and compact, for each entry"),
      row("expired space", "the store's files afterwards", unit: "MB"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let data = Dataset(count: count)
    let place = try make("hour", in: folder)
    var options = SubjectOptions(data)
    options.lifetimeSeconds = 3600
    let store = try await maker.open(in: place, options)
    try await recorder.time("expiring put", data.count) {
      for number in data.order { try await store.put(data.key(number), data.value(number)) }
    }
    var reader = try await store.reader()
    var isRight = true
    try await recorder.time("expiring get", data.count) {
      for number in data.order
      where try await !reader.has(data.key(number), data.value(number)) {
        isRight = false
      }
    }
    reader.close()
    try recorder.check(isRight, "expiring get")
    try await store.close()
    try await ended(maker, data, try make("second", in: folder), &recorder)
  }

  private func ended<Maker: SubjectMaker>(
    _ maker: Maker, _ data: Dataset, _ place: String, _ recorder: inout Recorder
  ) async throws {
    var options = SubjectOptions(data)
    options.lifetimeSeconds = 1
    let store = try await maker.open(in: place, options)
    for number in data.order { try await store.put(data.key(number), data.value(number)) }
    // RocksDB counts whole seconds.
    try await Task.sleep(for: .seconds(3))
    try await recorder.time("expired removed", data.count) { try await store.compact() }
    var reader = try await store.reader()
    let isThere = try await reader.contains(data.key(data.order[0]))
    reader.close()
    try recorder.check(!isThere, "expired removed")
    try await store.close()
    recorder.add("expired space", Double(try diskBytes(place)) / 1e6)
  }
}
