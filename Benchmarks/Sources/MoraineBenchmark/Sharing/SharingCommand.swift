import ArgumentParser
import BenchmarkSupport
import Foundation
import MoraineEngine
import SystemPackage

/// Measures one store that several processes share.
struct SharingCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "sharing",
    abstract: "How soon a process sees another's change; how fast many write one store.",
    discussion: """
      First a child of this program stores one value after another, a pause between them; the value is \
      the moment of its storing. This process iterates changes() and compares. Then so many children \
      store as many records each, all at once, and this process checks that all are there, in each \
      one's own order. SQLite does the same through Python's module: one transaction a record, WAL, \
      synchronous=OFF, a busy timeout of a minute; "alone" is what one such process needs, so Python's \
      own share can be judged. Durability is none.
      """)
  @Option(help: "How many changes are timed.") var changes = 10_000
  @Option(help: "Microseconds between two of them.") var pauseMicroseconds = 300
  @Option(help: "How many processes write at once.") var processes = 10
  @Option(help: "How many records each of them stores.") var records = 10_000
  @Option(help: "Where to make the stores.")
  var directory = FileManager.default.currentDirectoryPath

  func validate() throws {
    if changes < 1 || processes < 1 || records < 1 || pauseMicroseconds < 0 {
      throw ValidationError("changes, processes and records are at least 1")
    }
  }

  func run() async throws {
    let scratch = try Scratch(in: directory)
    defer { scratch.remove() }
    note("\(changes) changes")
    let delays = try await ChangeDelays(
      path: scratch.path("changes"), count: changes, pauseMicroseconds: pauseMicroseconds
    ).measure()
    note("\(processes) processes")
    let crowd = Crowd(processes: processes, records: records)
    let together = try await crowd.moraine(scratch.path("crowd"))
    let alone = try await Crowd(processes: 1, records: records).moraine(scratch.path("alone"))
    let sqlite = try crowd.sqlite(scratch.path("crowd.sqlite"))
    let sqliteAlone = try Crowd(processes: 1, records: records)
      .sqlite(scratch.path("alone.sqlite"))
    print("\(changes) changes seen in another process, 0 lost, 0 out of order")
    var seen = Grid(["microseconds", "median", "p99", "most"])
    seen.add("from storing to seeing", delays.map { decimal($0, 0) })
    seen.print()
    print("\n\(processes) processes, \(records) records each, records a second")
    var rates = Grid(["", "together", "alone"])
    rates.add("Moraine, shared", [decimal(together, 0), decimal(alone, 0)])
    rates.add("SQLite, WAL", [decimal(sqlite, 0), decimal(sqliteAlone, 0)])
    rates.print()
    print("\n\(reproduction)")
  }
}

/// Stores values in a shared store. `sharing` starts this command as a child.
struct ShareAndWriteCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "share-and-write", shouldDisplay: false)
  @Argument var path: String
  @Option var name: String
  @Option var count: Int
  @Option var pauseMicroseconds = 0

  func run() async throws {
    let store = try await Store.open(at: FilePath(path), configuration: .sharedBenchmark)
    // All children begin when the parent process sends a line.
    _ = readLine()
    for number in 0..<count {
      try await store.set(Moment.now.bytes, forKey: Key("\(name) \(number)"))
      if pauseMicroseconds > 0 { usleep(UInt32(pauseMicroseconds)) }
    }
    try await store.close()
  }
}

extension Store.Configuration {
  static var sharedBenchmark: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    configuration.durability = .none
    return configuration
  }
}

/// A time in nanoseconds that is the same for all processes of this machine.
struct Moment {
  let nanoseconds: UInt64

  static var now: Moment {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Moment(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
  }

  /// Bytes of a small record's length.
  var bytes: [UInt8] { Array("\(nanoseconds)".utf8) }

  init(nanoseconds: UInt64) { self.nanoseconds = nanoseconds }

  init?(_ bytes: [UInt8]) {
    guard let nanoseconds = UInt64(String(decoding: bytes, as: UTF8.self)) else { return nil }
    self.nanoseconds = nanoseconds
  }
}
