import BenchmarkSupport
import Dispatch
import MoraineEngine

/// Loads a store and overwrites it while background compaction runs.
struct OverwriteWorkload: Sendable {
  enum Distribution { case uniform, zipfian }

  let data: TestData
  let scratch: Scratch
  let operations: Int
  let configuration: Store.Configuration
  private let sampleNanoseconds: UInt64 = 10_000_000

  func run(_ distribution: Distribution) async throws -> OverwriteFigures {
    let path = scratch.path("overwrite")
    let store = try Store(at: path, configuration: configuration)
    for number in 0..<data.count {
      try await store.set(data.value(number), forKey: data.key(number))
    }
    var figures = OverwriteFigures(operations, try await store.statistics())
    var last = [UInt32](repeating: 0, count: data.count)
    for number in 0..<data.count { last[number] = UInt32(number & 1023) }
    let chooser = KeyChooser(data, distribution)
    var generator = SplitMix64(seed: 2)
    let began = DispatchTime.now().uptimeNanoseconds
    var completed = began
    var sampled = began
    for operation in 0..<operations {
      let number = chooser.next(&generator)
      let key = data.key(number)
      let value = data.value(operation)
      last[number] = UInt32(operation & 1023)
      let start = DispatchTime.now().uptimeNanoseconds
      try await store.set(value, forKey: key)
      let end = DispatchTime.now().uptimeNanoseconds
      figures.latency.record(end - start)
      figures.longestGap = max(figures.longestGap, end - completed)
      completed = end
      if end - sampled >= sampleNanoseconds {
        try figures.sample(try await store.statistics(), path)
        sampled = end
      }
    }
    figures.nanoseconds = completed - began
    try figures.sample(try await store.statistics(), path)
    try await Task.sleep(for: .seconds(2))
    figures.rested = try await store.statistics()
    if let failure = await store.compactionFailure {
      figures.problems.append("compaction failed: \(failure)")
    }
    try await check(store, last)
    try await store.close()
    do {
      try await withStore(at: path, configuration: configuration) { try await check($0, last) }
    } catch {
      figures.problems.append("reopening: \(error)")
    }
    try scratch.remove("overwrite")
    return figures
  }

  private func check(_ store: Store, _ last: [UInt32]) async throws {
    guard try await store.count() == data.count else {
      throw WrongAnswer(row: "count after overwriting")
    }
    for number in 0..<data.count {
      let value = try await store.value(forKey: data.key(number))
      guard value == data.value(Int(last[number])) else {
        throw WrongAnswer(row: "value of key \(number) after overwriting")
      }
    }
  }
}

/// Chooses the key to overwrite next.
struct KeyChooser {
  private let order: [Int]
  private let zipfian: Zipfian?

  init(_ data: TestData, _ distribution: OverwriteWorkload.Distribution) {
    order = data.order
    zipfian = distribution == .zipfian ? Zipfian(count: data.count) : nil
  }

  @inline(__always)
  func next(_ generator: inout SplitMix64) -> Int {
    guard let zipfian else { return Int.random(in: 0..<order.count, using: &generator) }
    return order[zipfian.next(&generator)]
  }
}
