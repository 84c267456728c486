import BenchmarkSupport
import Foundation
import Moraine
import MoraineArchive

// What an archive gives back: restores, followers, promotion, replicated writes.
extension Bench {
  /// Restores of a large and of a small store, each byte checked.
  func restore() async throws -> [Figure] {
    var figures: [Figure] = []
    for bytes in [100_000, options.bytes] {
      let store = try await store("original")
      try await fill(store, bytes: bytes)
      let objects = try await objects()
      let root = try root("restore")
      // Attaching uploads a whole copy.
      let upload = try await seconds {
        try await attach(store, to: objects, at: root).detach()
      }
      let archive = try await Archive.open(objects, at: root)
      let state = try await store.statistics()
      try await store.close()
      var times: [Double] = []
      for _ in 0..<3 {
        times.append(
          try await seconds { try await archive.restore(to: scratch.path("restored")) })
        let restored = try await self.store("restored")
        guard try await restored.statistics().digest == state.digest else {
          throw BenchmarkFailure("the restored store has other contents")
        }
        try await restored.close()
        try scratch.remove("restored")
      }
      try scratch.remove("original")
      let megabytes = Double(state.liveBytes) / 1e6
      if bytes == 100_000 {
        figures.append(Figure("restore of 100 kB", median(times), "s"))
      } else {
        figures += [
          Figure("first upload of \(decimal(megabytes, 0)) MB", megabytes / upload, "MB/s"),
          Figure("restore of \(decimal(megabytes, 0)) MB", median(times), "s"),
          Figure("restore, checked", megabytes / median(times), "MB/s"),
        ]
      }
    }
    return figures
  }

  /// The memory that archiving and restoring need beyond the store. Each part is a process of its
  /// own; the store is made by the first one.
  func memory() async throws -> [Figure] {
    let objects = try await objects()
    if options.part == "restore" { return try await restoreMemory(objects) }
    let store = try await store("memory")
    try await fill(store, bytes: options.bytes)
    switch options.part {
    case "open":
      let peak = try await peakAnonymousBytes {}
      return [Figure("memory of the open store", Double(peak) / 1e6, "MB")]
    case "archive":
      let before = try anonymousBytes()
      let peak = try await peakAnonymousBytes {
        let writer = try await attach(store, to: objects)
        try await writer.flush()
        try await writer.checkpoint()
        try await writer.detach()
      }
      return [Figure("memory: archiving it, beyond that", Double(peak - before) / 1e6, "MB")]
    default:
      let writer = try await attach(store, to: objects)
      try await writer.flush()
      try await writer.detach()
      return []
    }
  }

  /// The memory of a restore in a process that has opened no store.
  private func restoreMemory(_ objects: CountedObjects) async throws -> [Figure] {
    let root = try root("memory")
    let address = options.address ?? "\(scratch.folder)/objects"
    _ = try options.child(.memory, "prepare", address: address, root: root.text)
    let archive = try await Archive.open(objects, at: root)
    let before = try anonymousBytes()
    let peak = try await peakAnonymousBytes {
      try await archive.restore(to: scratch.path("memory restored"))
    }
    let restored = try await store("memory restored")
    let open = try anonymousBytes()
    try await restored.close()
    return [
      Figure("memory: restoring it", Double(peak - before) / 1e6, "MB"),
      Figure("memory: the restored store, open", Double(open - before) / 1e6, "MB"),
    ]
  }

  /// Acknowledgements that wait for the archive, beside what one waits for: a sync, and requests.
  func replicated() async throws -> [Figure] {
    let store = try await store("replicated", durability: .sync)
    let objects = try await objects()
    let root = try root("requests")
    var values = RandomValues(seed: 1)
    var times: (create: [Double], get: [Double], sync: [Double], put: [Double]) = ([], [], [], [])
    let clock = ContinuousClock()
    let writer = try await attach(store, to: objects)
    for number in 0..<options.rounds * 50 {
      let name = try ObjectName("\(root.text)/\(number)")
      let (body, value) = (ObjectBody(values.next(600)), values.next(100))
      let key = Key("key \(number)")
      times.create.append(
        try await clock.measure { _ = try await objects.create(name, body) }.milliseconds)
      times.get.append(
        try await clock.measure { _ = try await objects.get(name, nil) }.milliseconds)
      times.sync.append(
        try await clock.measure { try await store.set(value, forKey: key) }.milliseconds)
      try await writer.flush()
      times.put.append(
        try await clock.measure {
          try await store.set(value, forKey: key, durability: .replicated)
        }.milliseconds)
    }
    let before = objects.counts
    let begin = clock.now
    let end = begin + .seconds(max(2, options.seconds / 4))
    let count = try await withThrowingTaskGroup(of: Int.self) { group in
      for task in 0..<64 {
        group.addTask {
          var count = 0
          while ContinuousClock.now < end {
            let value = [UInt8](repeating: UInt8(task), count: 100)
            try await store.set(
              value, forKey: Key("key \(task) \(count % 1000)"), durability: .replicated)
            count += 1
          }
          return count
        }
      }
      return try await group.reduce(0, +)
    }
    let elapsed = (clock.now - begin).milliseconds / 1000
    let counts = objects.counts - before
    try await writer.detach()
    try await store.close()
    return [
      Figure("durable put, median", median(times.sync), "ms"),
      Figure("creating an object of 600 bytes, median", median(times.create), "ms"),
      Figure("reading it, median", median(times.get), "ms"),
      Figure("replicated put, median", median(times.put), "ms"),
      Figure("replicated puts of 64 tasks", Double(count) / elapsed, "a second"),
      Figure("requests for each of these", Double(counts.all) / Double(count), "requests"),
    ]
  }

  /// A follower that is up to date takes over from a writer that is alive.
  func takeOver() async throws -> [Figure] {
    var store = try await store("machine 0")
    try await fill(store, bytes: 10_000_000)
    let objects = try await [objects(), objects()]
    let root = try root("take-over")
    var writer = try await attach(store, to: objects[0], at: root)
    try await writer.flush()
    var (times, requests): ([Double], [Double]) = ([], [])
    var follower = try await Archive.open(objects[1], at: root).follow(
      in: scratch.path("machine 1"))
    for round in 0..<options.rounds {
      try await follower.catchUp()
      let other = objects[(round + 1) % 2]
      let before = other.counts
      var promoted: (store: Store, writer: ArchiveWriter)?
      times.append(try await seconds { promoted = try await follower.promote() })
      requests.append(Double((other.counts - before).all))
      guard let promoted else { throw BenchmarkFailure("nothing was promoted") }
      try await promoted.store.set([1], forKey: "promoted \(round)")
      try await promoted.writer.flush()
      try await store.close()
      guard writer.status.archivedSequence < promoted.writer.status.archivedSequence else {
        throw BenchmarkFailure("the fenced writer has archived something")
      }
      (store, writer) = (promoted.store, promoted.writer)
      follower = try await Archive.open(objects[round % 2], at: root).rejoin(
        in: scratch.path("machine \(round % 2)")
      ).follower
    }
    try await follower.close()
    try await store.close()
    return [
      Figure("promotion, median", median(times), "s"),
      Figure("promotion, highest", times.max() ?? .nan, "s"),
      Figure("promotion: requests", median(requests), "requests"),
    ]
  }

  /// How late a follower is, and how fast it catches up.
  func follower() async throws -> [Figure] {
    let store = try await store("followed")
    try await fill(store, bytes: 10_000_000)
    let objects = try await objects()
    let root = try root("follower")
    let writer = try await attach(store, to: objects, at: root)
    try await writer.flush()
    let archive = try await Archive.open(objects, at: root)
    var follower = try await archive.follow(in: scratch.path("follower"))
    let watch = Watch { [follower] in follower.freshness.sequence }
    let load = SteadyLoad(store: store, rate: options.rate, keys: 1_000_000_000)
    let operations = try await load.run(seconds: options.seconds)
    try await writer.flush()
    try await follower.catchUp()
    try await Task.sleep(for: .milliseconds(20))
    let delays = try await watch.delays(of: operations)
    try await follower.close()
    var configuration = ArchiveConfiguration()
    // No checkpoint, so that the follower reads each commit.
    configuration.checkpointBytes = 1 << 50
    try await writer.detach()
    let second = try await Archive.open(objects, at: root, configuration: configuration)
      .attach(store)
    let bytes = try await store.statistics().appendedBytes
    try await fill(store, bytes: options.bytes / 4)
    try await second.flush()
    let megabytes = Double(try await store.statistics().appendedBytes - bytes) / 1e6
    let catchUp = try await seconds {
      follower = try await archive.follow(in: scratch.path("follower"))
      try await follower.catchUp()
    }
    guard try await follower.store.statistics().digest == store.statistics().digest else {
      throw BenchmarkFailure("the follower has other contents")
    }
    try await follower.close()
    let opening = try await seconds {
      follower = try await archive.follow(in: scratch.path("follower"))
      try await follower.catchUp()
    }
    try await follower.close()
    try await second.detach()
    try await store.close()
    return [
      Figure("acknowledged to visible on the follower, median", percentile(0.5, delays), "ms"),
      Figure("acknowledged to visible on the follower, 99 %", percentile(0.99, delays), "ms"),
      Figure("catching up with \(decimal(megabytes, 0)) MB", megabytes / catchUp, "MB/s"),
      Figure("opening a follower that lacks nothing", opening, "s"),
    ]
  }

  /// Many stores with an archive each, one write a second each.
  func many() async throws -> [Figure] {
    let isArchived = options.part == "archived"
    let objects = try await objects()
    var configuration = ArchiveConfiguration()
    configuration.probesStore = false
    var stores: [(Store, ArchiveWriter?)] = []
    for number in 0..<options.stores {
      let store = try await store("many \(number)", segmentBytes: 1 << 20)
      try await store.set([0], forKey: "first")
      var writer: ArchiveWriter?
      if isArchived {
        writer = try await attach(store, to: objects, configuration)
        try await writer?.flush()
      }
      stores.append((store, writer))
    }
    let before = (processorSeconds(), objects.counts)
    let begin = ContinuousClock.now
    let value = [UInt8](repeating: 7, count: 100)
    for second in 0..<options.seconds {
      for (number, (store, _)) in stores.enumerated() {
        try await store.set(value, forKey: Key("key \(second)"))
        let due = Double(second) + Double(number) / Double(stores.count)
        try await ContinuousClock().sleep(until: begin + .seconds(due))
      }
    }
    let elapsed = (ContinuousClock.now - begin).milliseconds / 1000
    let name = "\(options.stores) stores, " + (isArchived ? "archived" : "not archived")
    var figures = [
      Figure("\(name): processor", (processorSeconds() - before.0) / elapsed, "cores"),
      Figure("\(name): memory", Double(try anonymousBytes()) / 1e6, "MB"),
    ]
    if isArchived {
      figures.append(
        Figure(
          "\(name): requests", Double((objects.counts - before.1).all) / elapsed, "a second"))
    }
    for (store, writer) in stores {
      try await writer?.detach()
      try await store.close()
    }
    return figures
  }

  /// The processor time of requests.
  func requests() async throws -> [Figure] {
    let objects = try await objects()
    let root = try root("requests")
    var values = RandomValues(seed: 2)
    let count = options.rounds * 100
    var figures: [Figure] = []
    let bodies = (0..<count).map { _ in values.next(1000) }
    var start = processorSeconds()
    for (number, body) in bodies.enumerated() {
      _ = try await objects.create(try ObjectName("\(root.text)/\(number)"), ObjectBody(body))
    }
    figures.append(
      Figure("processor of a creation", (processorSeconds() - start) / Double(count) * 1e6, "µs"))
    start = processorSeconds()
    for number in bodies.indices {
      guard try await objects.get(try ObjectName("\(root.text)/\(number)"), nil) == bodies[number]
      else { throw BenchmarkFailure("an object has other bytes") }
    }
    figures.append(
      Figure("processor of a read", (processorSeconds() - start) / Double(count) * 1e6, "µs"))
    return figures
  }
}
