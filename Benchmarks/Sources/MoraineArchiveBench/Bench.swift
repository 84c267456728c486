import BenchmarkSupport
import Foundation
import Moraine
import MoraineArchive
import SystemPackage

#if S3
  import MoraineS3
#endif

/// The stores, archives and loads of one process of the benchmark.
struct Bench: Sendable {
  let options: ArchiveBench
  let scratch: Scratch

  /// Opens the store of objects.
  func objects() async throws -> CountedObjects {
    guard let address = options.address else {
      return CountedObjects(try await directory("\(scratch.folder)/objects"))
    }
    guard address.hasPrefix("s3://") else { return CountedObjects(try await directory(address)) }
    #if S3
      return CountedObjects(try S3ObjectStore(url: address))
    #else
      throw BenchmarkFailure("this build has no S3; build with --traits S3")
    #endif
  }

  private func directory(_ path: String) async throws -> DirectoryObjectStore {
    let directory = DirectoryObjectStore(path)
    try await directory.createRoot()
    return directory
  }

  /// A name for an archive that no earlier run has used, unless the run is given one.
  func root(_ name: String) throws -> ObjectName {
    try ObjectName(options.root ?? "\(name)-\(UInt64.random(in: 0 ... .max))")
  }

  func store(
    _ name: String, durability: Durability = .none, segmentBytes: Int = 64 << 20
  ) async throws -> Store {
    var configuration = Store.Configuration()
    configuration.durability = durability
    configuration.segmentSizeBytes = segmentBytes
    return try await Store.open(at: scratch.path(name), configuration: configuration)
  }

  /// Attaches the store to an archive of its own.
  func attach(
    _ store: Store, to objects: CountedObjects, at root: ObjectName? = nil,
    _ configuration: ArchiveConfiguration = ArchiveConfiguration()
  ) async throws -> ArchiveWriter {
    try await Archive.open(
      objects, at: root ?? self.root("archive"), createIfMissingFor: store,
      configuration: configuration
    ).attach(store)
  }

  /// Fills a store with values of a thousand random bytes.
  func fill(_ store: Store, bytes: Int) async throws {
    var values = RandomValues(seed: 7)
    for number in 0..<bytes / 1000 {
      try await store.set(values.next(1000), forKey: Key("key \(number)"))
    }
    try await store.sync()
  }
}

/// Values that LZ4 cannot make shorter.
struct RandomValues {
  private var generator: SplitMix64

  init(seed: UInt64) { generator = SplitMix64(seed: seed) }

  mutating func next(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count {
      withUnsafeBytes(of: generator.next()) { bytes.append(contentsOf: $0) }
    }
    bytes.removeLast(bytes.count - count)
    return bytes
  }
}

/// Writes a number of bytes a second, in values of 1,000 bytes: each 10 ms those that are due.
struct SteadyLoad {
  let store: Store
  let rate: Int
  let keys: Int

  /// - Returns: the moment of each operation's acknowledgement, with its number.
  func run(seconds: Int) async throws -> [(number: SequenceNumber, at: ContinuousClock.Instant)] {
    var values = RandomValues(seed: 11)
    var done: [(number: SequenceNumber, at: ContinuousClock.Instant)] = []
    done.reserveCapacity(rate / 1000 * seconds + 100)
    let begin = ContinuousClock.now
    for tick in 1...seconds * 100 {
      let due = rate / 1000 * tick / 100
      while done.count < due {
        let number = try await store.set(
          values.next(1000), forKey: Key("key \(done.count % keys)"))
        done.append((number, .now))
      }
      try await ContinuousClock().sleep(until: begin + .milliseconds(10 * tick))
    }
    return done
  }
}

/// Watches a number that grows, and when it passed the operations of a load.
final class Watch: Sendable {
  private let task: Task<[(UInt64, ContinuousClock.Instant)], any Error>

  /// - Parameter number: the number; it is read each 2 ms.
  init(_ number: @escaping @Sendable () -> SequenceNumber) {
    task = Task {
      var seen: [(UInt64, ContinuousClock.Instant)] = []
      while !Task.isCancelled {
        let now = number().rawValue
        if now > seen.last?.0 ?? 0 { seen.append((now, .now)) }
        // Cancelled at the end of the load.
        do { try await Task.sleep(for: .milliseconds(2)) } catch { break }
      }
      return seen
    }
  }

  /// Ends the watch.
  ///
  /// - Returns: for each operation the milliseconds between its acknowledgement and its arrival.
  func delays(
    of operations: [(number: SequenceNumber, at: ContinuousClock.Instant)]
  ) async throws -> [Double] {
    task.cancel()
    let seen = try await task.value
    var place = 0
    var delays: [Double] = []
    for operation in operations {
      while place < seen.count, seen[place].0 < operation.number.rawValue { place += 1 }
      guard place < seen.count else { throw BenchmarkFailure("an operation never arrived") }
      delays.append((seen[place].1 - operation.at).milliseconds)
    }
    return delays
  }
}
