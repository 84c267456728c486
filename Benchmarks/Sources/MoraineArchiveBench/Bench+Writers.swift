import BenchmarkSupport
import Foundation
import Moraine
import MoraineArchive

// What an archive costs the store that writes it.
extension Bench {
  /// The same writes with and without an archive, in turns.
  func writes() async throws -> [Figure] {
    var figures: [Figure] = []
    for (name, tasks, durability) in [
      // An archive has durable operations only, so the comparison is with a store that syncs each
      // second too.
      ("puts, one task", 1, Durability.interval(.seconds(1))),
      ("durable puts, 16 tasks", 16, .sync),
    ] {
      var ratios: [Double] = []
      var alone: [Double] = []
      for round in 0..<options.rounds {
        var rates: [Bool: Double] = [:]
        for isArchived in round.isMultiple(of: 2) ? [false, true] : [true, false] {
          rates[isArchived] = try await rate(
            tasks, durability, isArchived: isArchived)
        }
        guard let with = rates[true], let without = rates[false] else { continue }
        ratios.append(with / without)
        alone.append(without)
      }
      figures.append(Figure("\(name), without an archive", median(alone), "a second"))
      figures.append(Figure("\(name), slower with an archive", (1 - median(ratios)) * 100, "%"))
    }
    var slower: [Double] = []
    var medians: [Double] = []
    for round in 0..<options.rounds {
      var times: [Bool: Double] = [:]
      for isArchived in round.isMultiple(of: 2) ? [false, true] : [true, false] {
        times[isArchived] = try await latency(isArchived: isArchived)
      }
      guard let with = times[true], let without = times[false] else { continue }
      slower.append(with / without)
      medians.append(without)
    }
    figures.append(Figure("median put at the steady rate, without", median(medians), "µs"))
    figures.append(
      Figure("median put at the steady rate, slower with an archive", (median(slower) - 1) * 100, "%")
    )
    return figures
  }

  /// Returns the puts a second of some tasks, with values of 100 bytes.
  private func rate(
    _ tasks: Int, _ durability: Durability, isArchived: Bool
  ) async throws -> Double {
    let store = try await store("writes", durability: durability)
    let objects = try await objects()
    var writer: ArchiveWriter?
    if isArchived {
      writer = try await attach(store, to: objects)
    }
    let begin = ContinuousClock.now
    let end = begin + .seconds(max(3, options.seconds / 4))
    let count = try await withThrowingTaskGroup(of: Int.self) { group in
      for task in 0..<tasks {
        group.addTask {
          var values = RandomValues(seed: UInt64(task))
          let pool = (0..<256).map { _ in values.next(100) }
          var count = 0
          while count % 64 != 0 || ContinuousClock.now < end {
            let key = Key("key \(task) \(count % 100_000)")
            try await store.set(pool[count % 256], forKey: key)
            count += 1
          }
          return count
        }
      }
      return try await group.reduce(0, +)
    }
    let elapsed = (ContinuousClock.now - begin).milliseconds / 1000
    try await writer?.detach()
    try await store.close()
    try scratch.remove("writes")
    return Double(count) / elapsed
  }

  /// Returns the median time of a put in microseconds, while a steady load runs.
  private func latency(isArchived: Bool) async throws -> Double {
    let store = try await store("latency", durability: .interval(.seconds(1)))
    let objects = try await objects()
    var writer: ArchiveWriter?
    if isArchived {
      writer = try await attach(store, to: objects)
    }
    var values = RandomValues(seed: 3)
    let pool = (0..<256).map { _ in values.next(1000) }
    var times: [Double] = []
    var count = 0
    let begin = ContinuousClock.now
    for tick in 1...max(3, options.seconds / 4) * 100 {
      let first = ContinuousClock.now
      for _ in 0..<options.rate / 100_000 {
        try await store.set(pool[count % 256], forKey: Key("key \(count)"))
        count += 1
      }
      times.append((.now - first).milliseconds * 1000 / Double(options.rate / 100_000))
      try await ContinuousClock().sleep(until: begin + .milliseconds(10 * tick))
    }
    try await writer?.detach()
    try await store.close()
    try scratch.remove("latency")
    return median(times)
  }

  /// The time of a flush that has nothing to ship: a cut, and the hops between three actors.
  func cut() async throws -> [Figure] {
    var figures: [Figure] = []
    for segments in [10, 1000] {
      let store = try await store("cut \(segments)", segmentBytes: 1 << 20)
      try await fill(store, bytes: segments * 1_050_000)
      let objects = try await objects()
      var configuration = ArchiveConfiguration()
      configuration.interval = .seconds(3600)
      let writer = try await attach(store, to: objects, configuration)
      try await writer.flush()
      let before = objects.counts
      var times: [Double] = []
      for _ in 0..<2000 {
        times.append(
          try await ContinuousClock().measure { try await writer.flush() }.milliseconds * 1000)
      }
      guard (objects.counts - before).all == 0 else {
        throw BenchmarkFailure("a flush without news made a request")
      }
      let count = try await store.statistics().segmentCount
      figures.append(Figure("flush without news, \(count) segments", median(times), "µs"))
      try await writer.detach()
      try await store.close()
      try scratch.remove("cut \(segments)")
    }
    return figures
  }

  /// A writer and a follower that have nothing to do.
  func idle() async throws -> [Figure] {
    let store = try await store("idle")
    try await fill(store, bytes: 10_000_000)
    let (mine, others) = (try await objects(), try await objects())
    let root = try root("idle")
    let writer = try await attach(store, to: mine, at: root)
    try await writer.flush()
    var before = mine.counts
    var processor = processorSeconds()
    try await Task.sleep(for: .seconds(options.seconds))
    var figures = [
      Figure("writer: requests while idle", Double((mine.counts - before).all), "requests"),
      Figure(
        "writer and store: processor while idle",
        (processorSeconds() - processor) / Double(options.seconds) * 100, "% of a core"),
    ]
    try await writer.detach()
    let follower = try await Archive.open(others, at: root).follow(
      in: scratch.path("idle follower"))
    try await follower.catchUp()
    (before, processor) = (others.counts, processorSeconds())
    try await Task.sleep(for: .seconds(options.seconds))
    let counts = others.counts - before
    figures += [
      Figure(
        "follower: requests a poll while idle", Double(counts.all) / Double(options.seconds),
        "requests"),
      Figure("follower: lists while idle", Double(counts.lists), "requests"),
      Figure(
        "follower and both stores: processor while idle",
        (processorSeconds() - processor) / Double(options.seconds) * 100, "% of a core"),
    ]
    try await follower.close()
    try await store.close()
    return figures
  }

  /// A steady load: requests, bytes, processor time, and how long an operation is not archived.
  func load() async throws -> [Figure] {
    var processor: [Double] = []
    var figures: [Figure] = []
    for isArchived in [false, true] {
      let store = try await store("load \(isArchived)", durability: .interval(.seconds(1)))
      let objects = try await objects()
      var writer: ArchiveWriter?
      if isArchived {
        writer = try await attach(store, to: objects)
        try await writer?.flush()
      }
      let watch = Watch { [writer] in writer?.status.archivedSequence ?? .none }
      let before = objects.counts
      let start = processorSeconds()
      let load = SteadyLoad(store: store, rate: options.rate, keys: 1_000_000_000)
      let operations = try await load.run(seconds: options.seconds)
      processor.append(processorSeconds() - start)
      let counts = objects.counts - before
      if let writer {
        try await writer.flush()
        try await Task.sleep(for: .milliseconds(20))
        let delays = try await watch.delays(of: operations)
        let hours = Double(options.seconds) / 3600
        figures = [
          Figure("requests an hour", Double(counts.all) / hours, "requests"),
          Figure("of these, lists", Double(counts.lists), "requests"),
          Figure("acknowledged to archived, median", percentile(0.5, delays), "ms"),
          Figure("acknowledged to archived, 99.9 %", percentile(0.999, delays), "ms"),
          Figure(
            "shipping: processor",
            (processor[1] - processor[0]) / Double(options.seconds) * 100, "% of a core"),
        ]
        try await writer.detach()
      }
      try await store.close()
    }
    return figures
  }

  /// Overwrites while the archive cannot be reached for half of the time. Replaced segments have no
  /// name any more, so the files in the directory do not show them.
  func unreachable() async throws -> [Figure] {
    let store = try await store("unreachable", segmentBytes: 4 << 20)
    let objects = try await objects()
    var configuration = ArchiveConfiguration()
    configuration.heldBytesLimit = 64 << 20
    configuration.patience = .seconds(1)
    let writer = try await attach(store, to: objects, configuration)
    var peaks: [Double] = []
    for isReachable in [true, false] {
      objects.isReachable.store(isReachable, ordering: .sequentiallyConsistent)
      let peak = Task {
        var peak = 0
        while !Task.isCancelled {
          peak = max(peak, writer.status.heldBytes)
          // Cancelled at the end of the load.
          do { try await Task.sleep(for: .milliseconds(5)) } catch { break }
        }
        return peak
      }
      let load = SteadyLoad(store: store, rate: 20_000_000, keys: 50_000)
      _ = try await load.run(seconds: max(2, options.seconds / 2))
      peak.cancel()
      peaks.append(Double(await peak.value) / 1e6)
    }
    objects.isReachable.store(true, ordering: .sequentiallyConsistent)
    try await writer.flush()
    try await writer.detach()
    try await store.close()
    return [
      Figure("disk held for the archive at most, reachable", peaks[0], "MB"),
      Figure("disk held for the archive at most, unreachable", peaks[1], "MB"),
      Figure("limit of held bytes", Double(configuration.heldBytesLimit) / 1e6, "MB"),
    ]
  }

  /// The bytes that are sent for each byte of the log.
  func uploads() async throws -> [Figure] {
    var figures: [Figure] = []
    let records = 100_000
    let zipfian = Zipfian(count: records)
    for (name, overwrites) in [("no overwrites", false), ("YCSB-A", true)] {
      let store = try await store(name)
      if overwrites { try await fill(store, bytes: records * 1000) }
      let objects = try await objects()
      let writer = try await attach(store, to: objects)
      try await writer.checkpoint()
      let before = objects.counts
      let bytes = try await store.statistics().appendedBytes
      var generator = SplitMix64(seed: 5)
      var values = RandomValues(seed: 6)
      let total = options.bytes / 1000
      for number in 0..<total {
        if overwrites {
          let key = Key("key \(zipfian.next(&generator))")
          if Bool.random(using: &generator) {
            guard try await store.value(forKey: key) != nil else {
              throw BenchmarkFailure("a record is missing")
            }
            continue
          }
          try await store.set(values.next(1000), forKey: key)
        } else {
          try await store.set(values.next(1000), forKey: Key("key \(number)"))
        }
        if number % 50_000 == 0 { try await writer.flush() }
      }
      try await writer.flush()
      let appended = Double(try await store.statistics().appendedBytes - bytes)
      let sent = Double((objects.counts - before).sentBytes)
      figures.append(Figure("sent for each byte of records, \(name)", sent / appended, "bytes"))
      try await writer.detach()
      try await store.close()
      try scratch.remove(name)
    }
    return figures
  }
}
