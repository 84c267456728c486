import ArgumentParser
import Foundation
import Moraine
import MoraineTesting
import SystemPackage

/// Runs random transactions over lists in a shared store, and prints what each one has read and
/// appended. `Tests/SharedProcesses/histories.py` runs several of these processes, kills them, and
/// checks the history.
struct TransactionWorker: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "transactions",
    abstract: "Runs random transactions until it is killed, and prints their history.",
    discussion: """
      Before each transaction it prints {"began":ID,"moment":N}, before each attempt
      to commit it {"id":ID,"intends":[LIST...]} when it appends, and after it one
      object with id, reads, appends, began and ended. Moments are nanoseconds of
      the machine's monotonic clock. With --count 0 it prints the lists of the
      store, and ends.
      """,
    shouldDisplay: false)
  @Argument(help: "The store.") var store: String
  @Option(help: "How the log is written.") var io = Drive.IO.mapped
  @Option(help: "The seed of the transactions.") var seed: UInt64 = 1
  @Option(help: "The id of the first transaction.") var firstID: UInt32 = 1
  @Option(help: "The number of transactions.") var count = Int.max
  @Flag(help: "Keep the lists in an ordered keyspace.") var ordered = false

  func run() async throws {
    var configuration = Store.Configuration()
    configuration.sharing = .shared
    configuration.durability = .none
    configuration.segmentSizeBytes = 16_384
    configuration.checkpointFloorBytes = 0
    configuration.ioMode = io == .mapped ? .mapped : .positional
    let store = try Store(at: FilePath(store), configuration: configuration)
    let encoder = JSONEncoder()
    if count == 0 {
      try write(try await ListTransaction.lists(of: store), encoder)
      return try await store.close()
    }
    for number in 0..<count {
      let id = firstID + UInt32(number)
      let began = moment
      try Output.line("{\"began\":\(id),\"moment\":\(began)}")
      try Output.flush()
      let transaction = try ListTransaction(
        id: id, seed: seed &* 1_000_003 &+ UInt64(number), isOrdered: ordered, in: store)
      var committed = try await transaction.run(on: store) { try Self.announce($0) }
      committed.began = began
      committed.ended = moment
      try write(committed, encoder)
    }
    try await store.close()
  }

  /// Prints the lists to which a transaction is about to append. A process that is killed in the
  /// commit has no other chance: the store must have all of these changes or none.
  private static func announce(_ committed: HistoryChecker.Committed) throws {
    if committed.appends.isEmpty { return }
    let names = committed.appends.sorted().map { "\"\($0)\"" }.joined(separator: ",")
    try Output.line("{\"id\":\(committed.id),\"intends\":[\(names)]}")
    try Output.flush()
  }

  private var moment: Int { Int(DispatchTime.now().uptimeNanoseconds) }

  private func write(_ value: some Encodable, _ encoder: JSONEncoder) throws {
    try Output.line(String(decoding: try encoder.encode(value), as: UTF8.self))
    try Output.flush()
  }
}
