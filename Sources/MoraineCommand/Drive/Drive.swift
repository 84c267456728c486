import ArgumentParser
import Foundation
import Moraine
import MoraineArchive
import MoraineTesting
import SystemPackage

struct Drive: AsyncParsableCommand {
  enum Level: String, ExpressibleByArgument, CaseIterable {
    case sync, interval, none
  }
  enum IO: String, ExpressibleByArgument, CaseIterable {
    case mapped, positional
  }

  static let configuration = CommandConfiguration(
    abstract: "Executes commands from standard input, one per line, for other programs.",
    discussion: """
      Keys and values are hexadecimal digits; - stands for no bytes.

        put KEY VALUE   ok SEQUENCE
        putx KEY VALUE MILLISECONDS
                        ok SEQUENCE: an entry that expires at this time,
                        counted from the beginning of 1970
        del KEY         ok SEQUENCE, or ok - if the key did not exist
        get KEY         value VALUE, or none
        cas KEY SEQUENCE VALUE
                        ok SEQUENCE of the new value, if the present one has
                        this sequence; the word absent stands for no value.
                        Otherwise err conflict, and nothing is written
        getv KEY        value SEQUENCE VALUE, or none
        batch N         N lines of put and del follow, applied all or none:
                        ok LAST-SEQUENCE of the batch, or ok - if it wrote
                        nothing
        scan            count N DIGEST: the sum, modulo 2^64, of FNV-1a of
                        each key's length in 8 bytes, the key and the value
        range FROM TO [reverse] [LIMIT]
                        with --ordered: count N, and then N lines of key and
                        value: the keys from FROM up to, and without, TO, in
                        their order; - stands for no bound
        sync            ok DURABLE-SEQUENCE
        clock MILLISECONDS
                        with --manual-clock: ok; the time is this one now
        reap            ok N: expired entries of which the grace has passed
                        were deleted, N in number
        compact         ok, after a compaction of the whole store
        flush           with --archive: ok SEQUENCE, when the archive has all
                        writes up to it
        checkpoint      with --archive: ok, when the archive has a checkpoint
                        of all writes
        stats           stats JSON
        close           ok; then the program ends

      The answer to a failed command is err CODE MESSAGE; the answer to a wrong
      line is err usage MESSAGE, also to a line that writes and that the end of the
      input has cut off. The end of the input closes the store; with --archive, the
      archive then has all writes, or the last line is err CODE MESSAGE.

        echo "put 6b 76" | moraine drive test.moraine
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "The durability that ok after a write confirms.") var durability = Level.interval
  @Option(help: "The size of a segment in bytes, from 256.") var segmentSize = 64 << 20
  @Option(help: "The size of the log, in bytes, from which closing writes an index checkpoint.")
  var checkpointFloor = 1 << 20
  @Option(help: "How the log is written.") var io = IO.mapped
  @Flag(help: "Share the store with other processes that use this flag.")
  var shared = false

  @Flag(help: "Let entries expire by a clock that begins at 0, and that clock lines set.")
  var manualClock = false

  @Option(help: "Milliseconds between the expiry of an entry and its deletion.")
  var expiryGrace = 3_600_000

  @Flag(help: "Keep the keys in their order, for range.") var ordered = false
  @Option(help: "Archive the store while the program runs: file:/DIRECTORY or s3://BUCKET/PREFIX.")
  var archive: ArchivePlace?

  func validate() throws {
    if segmentSize < StoreLimits.segmentSizeBytes.lowerBound {
      throw ValidationError("--segment-size takes a number from 256")
    }
  }

  func run() async throws {
    let clock = manualClock ? ManualClock(startingAt: 0) : nil
    let opened = try await open(clock)
    let keyspace = try ordered ? opened.orderedKeyspace(named: "") : opened.keyspace(named: "")
    try await opened.closed { _ in
      try await DriveSession(keyspace, clock, try await attach(opened)).run()
    }
  }

  /// Begins to archive the store; prints an error as the answer to a command.
  private func attach(_ opened: Store) async throws -> ArchiveWriter? {
    guard let archive else { return nil }
    do {
      let writer = ProcessInfo.processInfo.hostName
      return try await archive.open(for: opened, writer: writer).attach(opened)
    } catch let error as ArchiveError {
      try Output.line(DriveSession.text(error))
      throw Failure(code: error.exitCode, message: nil)
    }
  }

  /// Opens the store; prints an error as the answer to a command.
  private func open(_ clock: ManualClock?) async throws -> Store {
    var configuration = configuration
    if let clock { configuration.clock = clock }
    do throws(StoreError) {
      return try await Store.open(at: FilePath(store.directory), configuration: configuration)
    } catch {
      try Output.line(DriveSession.text(error))
      throw Failure(code: error.exitCode, message: nil)
    }
  }

  private var configuration: Store.Configuration {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = segmentSize
    configuration.sharing = shared ? .shared : .exclusive
    configuration.expiryGrace = .milliseconds(max(0, expiryGrace))
    configuration.checkpointFloorBytes = max(0, checkpointFloor)
    configuration.ioMode = io == .mapped ? .mapped : .positional
    switch durability {
    case .sync: configuration.durability = .sync
    case .interval: configuration.durability = .interval(.seconds(1))
    case .none: configuration.durability = .none
    }
    return configuration
  }
}
