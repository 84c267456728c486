import BenchmarkSupport
import Foundation

/// db_bench's rows, in its order: keys of 16 bytes and values of 100, half of which repeats.
struct Basics: Workload {
  static let name = "db_bench"
  let data: Dataset

  init(_ size: Size) { data = Dataset(count: size.count) }

  var rows: [Report.Row] {
    [
      row("fillseq", "puts in the order of the keys", durability: "none"),
      row("fillrandom", "puts in random order", durability: "none"),
      row("overwrite", "puts of keys that are there", durability: "none"),
      row("readrandom", "gets, the value compared"),
      row("readrandom x2", "gets on two threads, time for one of all"),
      row("readrandom x4", "gets on four threads"),
      row("multiget 100", "gets of a hundred keys in one call, where there is such a call"),
      row("readmissing", "gets of keys that are not there"),
      row("readseq", "everything, in the engine's cheapest order"),
      row("readwhilewriting", "gets while another thread or task puts without pause"),
      row("deletehalf", "deletes of every other key", durability: "none"),
      row("open", "close in order, open, one get", unit: "ms"),
      row("disk, filled", "of 116 bytes a key", unit: "MB"),
      row("disk, overwritten", "once each, in random order", unit: "MB"),
      row("disk, half deleted", "and compacted", unit: "MB"),
      row("memory", "anonymous, after filling and reading", unit: "MB"),
      row(
        "write amplification", "bytes sent to the disk for each byte put, filled and overwritten",
        unit: "×"),
    ]
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    try await fillInOrder(maker, try make("sequential", in: folder), &recorder)
    let place = try make("random", in: folder)
    let memory = ThisProcess.anonymousBytes
    let written = ThisProcess.writtenBytes
    let store = try await maker.open(in: place, SubjectOptions(data))
    try await recorder.time("fillrandom", data.count) {
      for number in data.order { try await store.put(data.key(number), data.value(number)) }
    }
    recorder.add("disk, filled", megabytes(try diskBytes(place)))
    try await ReadRows(data).run(store, recorder.engine, &recorder)
    if let snapshots = store.snapshots {
      try await ReadRows(data).run(snapshots, SnapshotMaker.engine.name, &recorder)
    }
    if let live = store.live {
      try await ReadRows(data).runSingleGets(live, LiveMaker.engine.name, &recorder)
    }
    if let memory, let now = ThisProcess.anonymousBytes {
      recorder.add("memory", megabytes(now > memory ? now - memory : 0))
    }
    try await recorder.time("overwrite", data.count) {
      for number in data.order.reversed() {
        try await store.put(data.key(number), data.value(number, generation: 1))
      }
    }
    recorder.add("disk, overwritten", megabytes(try diskBytes(place)))
    // The writer of these rows puts as much as its speed allows: not a part of the amplification.
    addAmplification(since: written, &recorder)
    try await ReadWhileWriting(data).run(store, &recorder)
    try await deleteHalf(store, place, &recorder)
    try await store.close()
    try await open(maker, place, &recorder)
  }

  private func fillInOrder<Maker: SubjectMaker>(
    _ maker: Maker, _ place: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: place, SubjectOptions(data))
    try await recorder.time("fillseq", data.count) {
      for number in 0..<data.count { try await store.put(data.key(number), data.value(number)) }
    }
    try await store.close()
    try FileManager.default.removeItem(atPath: place)
  }

  private func deleteHalf(
    _ store: some Subject, _ place: String, _ recorder: inout Recorder
  ) async throws {
    try await recorder.time("deletehalf", data.count / 2) {
      for number in data.order where number & 1 == 1 { try await store.remove(data.key(number)) }
    }
    try await store.compact()
    recorder.add("disk, half deleted", megabytes(try diskBytes(place)))
    var reader = try await store.reader()
    for number in data.order.prefix(1000) {
      let isThere = try await reader.has(data.key(number), data.value(number, generation: 1))
      try recorder.check(isThere == (number & 1 == 0), "deletehalf")
    }
    reader.close()
  }

  private func addAmplification(since before: UInt64?, _ recorder: inout Recorder) {
    // Data that is only in the kernel's memory counts as well.
    sync()
    guard let before, let now = ThisProcess.writtenBytes, now > before else { return }
    recorder.add("write amplification", Double(now - before) / Double(2 * data.bytes))
  }

  private func open<Maker: SubjectMaker>(
    _ maker: Maker, _ place: String, _ recorder: inout Recorder
  ) async throws {
    let milliseconds = try await recorder.open(
      maker, place, data, data.value(0, generation: 1), of: 0)
    recorder.add("open", milliseconds)
  }

  private func megabytes(_ bytes: UInt64) -> Double { Double(bytes) / 1e6 }
}
