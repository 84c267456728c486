import BenchmarkSupport
import MoraineEngine

/// Calls from the main actor, where an app's code runs: each await is a change of threads there.
struct MainActorCalls: Sendable {
  static let name = "main actor"
  static let engines = [MoraineMaker.name]
  private let data: Dataset

  init(_ size: Size) { data = Dataset(count: min(size.count, 200_000)) }

  var rows: [Report.Row] {
    [
      row("main actor put", "one await for each", durability: "none"),
      row("main actor batch", "a thousand puts in one `write`, time for one", durability: "none"),
      row(
        "main actor queue", "puts by `store.writeQueue()`, and a flush at the end",
        durability: "none"),
      row("main actor get", "one await for each"),
      row("main actor reader", "gets by `store.reader()`, without an await"),
      row("reader elsewhere", "the same gets on another thread"),
    ]
  }

  private func row(
    _ name: String, _ meaning: String, durability: String? = nil
  ) -> Report.Row {
    Report.Row(
      name: name, group: Self.name, unit: "µs", durability: durability, meaning: meaning)
  }

  func run(in folder: String, _ recorder: inout Recorder) async throws {
    let store = try MoraineMaker().open(in: folder, SubjectOptions(data)).store
    recorder = try await Self.measure(data, store, recorder)
    let reader = LiveReader(reader: try await store.reader())
    var isRight = true
    try await recorder.time("reader elsewhere", data.count) {
      for number in data.order where try !reader.has(data.key(number), data.value(number)) {
        isRight = false
      }
    }
    try recorder.check(isRight, "reader elsewhere")
    try await store.close()
  }

  @MainActor
  private static func measure(
    _ data: Dataset, _ store: Store, _ before: Recorder
  ) async throws -> Recorder {
    var recorder = before
    let clock = ContinuousClock()
    let few = data.order.prefix(data.count / 10)
    var isRight = true
    var began = clock.now
    for number in few {
      try await store.set(data.value(number), forKey: Key(data.key(number)))
    }
    recorder.add("main actor put", microseconds(since: began, few.count))
    began = clock.now
    for start in stride(from: 0, to: data.count, by: 1000) {
      let part = data.order[start..<min(start + 1000, data.count)]
      try await store.write { batch in
        for number in part {
          try batch.set(data.value(number), forKey: Key(data.key(number)))
        }
      }
    }
    recorder.add("main actor batch", microseconds(since: began, data.count))
    let queue = try await store.writeQueue()
    began = clock.now
    for number in data.order {
      try await queue.set(data.value(number), forKey: Key(data.key(number)))
    }
    try await queue.flush()
    recorder.add("main actor queue", microseconds(since: began, data.count))
    began = clock.now
    for number in few
    where !isSame(try await store.value(forKey: Key(data.key(number))), data.value(number)) {
      isRight = false
    }
    recorder.add("main actor get", microseconds(since: began, few.count))
    let reader = LiveReader(reader: try await store.reader())
    began = clock.now
    for number in data.order where try !reader.has(data.key(number), data.value(number)) {
      isRight = false
    }
    recorder.add("main actor reader", microseconds(since: began, data.count))
    try recorder.check(isRight, Self.name)
    return recorder
  }

  @MainActor
  private static func microseconds(since began: ContinuousClock.Instant, _ count: Int) -> Double {
    began.duration(to: .now).milliseconds * 1000 / Double(count)
  }
}
