import BenchmarkSupport
import Synchronization

/// Gets beside a writer that does not pause. The writer puts the values that are stored already, so
/// that every value that is read can be checked.
struct ReadWhileWriting: Sendable {
  /// Number of gets before a reader moves to a later moment.
  private static let stride = 100
  private let data: Dataset

  init(_ data: Dataset) { self.data = data }

  func run<Made: Subject>(_ store: Made, _ recorder: inout Recorder) async throws {
    recorder.add(row, try await measure(store, store, recorder.engine))
    if let live = store.live {
      let figure = try await measure(store, live, recorder.engine)
      recorder.add(row, figure, engine: LiveMaker.engine.name)
    }
    guard let snapshots = store.snapshots else { return }
    let figure = try await measure(store, snapshots, recorder.engine)
    recorder.add(row, figure, engine: SnapshotMaker.engine.name)
  }

  private var row: String { "readwhilewriting" }

  /// Returns the microseconds of one get.
  private func measure<Made: Subject, Maker: ReaderMaker>(
    _ store: Made, _ maker: Maker, _ engine: String
  ) async throws -> Double {
    let shared = Shared()
    let data = data
    // An engine that blocks has its own thread, for the writer as well.
    let isOnThread = Maker.blocks && !Maker.refreshSuspends
    async let reading: Void = atOnce(1, onThreads: isOnThread) { _ in
      defer { shared.isDone.store(true, ordering: .relaxed) }
      shared.microseconds.store(
        UInt64(try await read(maker, engine) * 1000), ordering: .relaxed)
    }
    try await atOnce(1, onThreads: Made.blocks) { _ in
      while true {
        for number in data.order {
          if shared.isDone.load(ordering: .relaxed) { return }
          try await store.put(data.key(number), data.value(number, generation: 1))
        }
      }
    }
    try await reading
    return Double(shared.microseconds.load(ordering: .relaxed)) / 1000
  }

  private func read<Maker: ReaderMaker>(_ maker: Maker, _ engine: String) async throws -> Double {
    var reader = try await maker.reader()
    defer { reader.close() }
    var isRight = true
    let elapsed = try await ContinuousClock().measure {
      for start in Swift.stride(from: 0, to: data.count, by: Self.stride) {
        try await reader.refresh()
        for number in data.order[start..<min(start + Self.stride, data.count)]
        where try await !reader.has(data.key(number), data.value(number, generation: 1)) {
          isRight = false
        }
      }
    }
    if !isRight { throw WrongAnswer(engine: engine, row: row) }
    return elapsed.milliseconds * 1000 / Double(data.count)
  }

  private final class Shared: Sendable {
    let isDone = Atomic<Bool>(false)
    let microseconds = Atomic<UInt64>(0)
  }
}
