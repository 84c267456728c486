import ArgumentParser
import Moraine
import SystemPackage

struct Drive: AsyncParsableCommand {
  enum Level: String, ExpressibleByArgument, CaseIterable {
    case sync, interval, none
  }
  enum IO: String, ExpressibleByArgument, CaseIterable {
    case mapped, positional
  }

  static let configuration = CommandConfiguration(
    abstract: "Answers commands on standard input, a line each, for other programs.",
    discussion: """
      Keys and values are hexadecimal digits, - for no bytes.

        put KEY VALUE   ok SEQUENCE
        del KEY         ok SEQUENCE, or ok - when it was not there
        get KEY         value VALUE, or none
        batch N         then N lines of put and del, all or nothing:
                        ok LAST-SEQUENCE of the batch, or ok - when it wrote
                        nothing
        scan            count N DIGEST: the sum, modulo 2^64, of FNV-1a of
                        each key's length in 8 bytes, the key and the value
        sync            ok DURABLE-SEQUENCE
        compact         ok, when the log holds little but what is live
        stats           stats JSON
        close           ok, and the end

      What fails is answered err CODE MESSAGE, and misuse err usage MESSAGE.
      The end of the input closes the store.

        echo "put 6b 76" | moraine drive test.moraine
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "What an ok after a write stands for.") var durability = Level.interval
  @Option(help: "In bytes, from 256.") var segmentSize = 64 << 20
  @Option(help: "A log from so many bytes on gets an index checkpoint when it is closed.")
  var checkpointFloor = 1 << 20
  @Option(help: "How bytes get into the log.") var io = IO.mapped
  @Flag(help: "Other processes may have the store open too, with the same flag.")
  var shared = false

  func validate() throws {
    if segmentSize < Limits.segmentSizeBytes.lowerBound {
      throw ValidationError("--segment-size takes a number from 256")
    }
  }

  func run() async throws {
    let opened = try await open()
    try await opened.closed { store in
      try await DriveSession(store).run()
    }
  }

  /// Answers like a command when there is nothing to open.
  private func open() async throws -> Store {
    do throws(StoreError) {
      return try await Store.open(at: FilePath(store.directory), configuration: configuration)
    } catch {
      try Output.line(DriveSession.text(error))
      throw Failure(code: error.exitCode, message: nil)
    }
  }

  private var configuration: Configuration {
    var configuration = Configuration()
    configuration.segmentSizeBytes = segmentSize
    configuration.sharing = shared ? .shared : .exclusive
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
