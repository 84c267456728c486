import BenchmarkSupport

/// Puts that are on the disk when they return, of one writer and of several concurrent writers.
struct DurableCommits: Workload {
  static let name = "durable commits"
  private static let writerCounts = [1, 16, 256]
  let count: Int
  let data: Dataset

  init(_ size: Size) {
    count = size.commitCount
    data = Dataset(count: size.commitCount * 16)
  }

  var rows: [Report.Row] {
    Self.writerCounts.map {
      row(
        "fillsync x\($0)", "puts of \($0) at once; time for one of all", durability: "sync")
    }
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    for writers in Self.writerCounts {
      let place = try make("sync\(writers)", in: folder)
      let store = try await maker.open(in: place, SubjectOptions(data, sync: true))
      let each = max(1, count * (writers == 1 ? 1 : 4) / writers)
      let data = data
      try await recorder.time("fillsync x\(writers)", each * writers) {
        try await atOnce(writers, onThreads: Maker.Made.blocks) { writer in
          for number in writer * each..<(writer + 1) * each {
            try await store.put(data.key(number), data.value(number))
          }
        }
      }
      var reader = try await store.reader()
      for number in 0..<each * writers {
        let isThere = try await reader.has(data.key(number), data.value(number))
        try recorder.check(isThere, "fillsync x\(writers)")
      }
      reader.close()
      try await store.close()
    }
  }
}
