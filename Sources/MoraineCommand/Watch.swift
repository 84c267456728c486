import ArgumentParser
import Moraine

struct Watch: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints each change when it happens, from any process.",
    discussion: """
      Each change is one JSON object on a line, printed at once: sequence, keyspace,
      key, and either value or "removed":true. Bytes that are not UTF-8 appear as
      "keyHex" or "valueHex", in hexadecimal digits. Ends after --limit changes, or
      when it is stopped.

      Without options the first change is the next one. --since N begins after that
      sequence number. --all begins at the start of the log: it reports all live
      records, and may report records that were overwritten or removed later. If
      compaction has dropped removals since N, the command says so and ends with
      exit code 2: begin again with --all.

      A store that several processes share can be watched while they write. A store
      that one program opened exclusively is locked: call changes(since:) in that
      program. The watch itself holds a lock only while it opens the store. A program
      that opens the store exclusively afterwards is not refused; the watch then
      prints nothing of what that program writes, without a message.

        moraine watch users.moraine --since 81234 | jq -r .key
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "Watch only this keyspace; \"\" is the unnamed one.") var keyspace: String?
  @Option(help: "The sequence number of the last operation already seen.") var since: UInt64?
  @Flag(help: "Print the contents of the log first.") var all = false
  @Flag(help: "Leave the values out.") var keysOnly = false
  @Option(help: "Stop after this number of changes.") var limit: Int?

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit takes a number from 0") }
    if all, since != nil { throw ValidationError("--since and --all exclude each other") }
    guard let since, since > SequenceNumber.max.rawValue else { return }
    throw ValidationError("--since is at most \(SequenceNumber.max)")
  }

  func run() async throws {
    let most = limit ?? Int.max
    guard most > 0 else { return }
    try await store.following { store in
      if let since {
        let last = try await store.statistics().lastSequence
        guard since <= last.rawValue else {
          throw Failure.usage("--since \(since): the store has only reached \(last)")
        }
      }
      var count = 0
      for try await change in try changes(of: store) {
        try Output.write { append(change, to: &$0) }
        // The reader of the output waits for this line.
        try Output.flush()
        count += 1
        if count == most { return }
      }
    }
  }

  private func changes(of store: Store) throws -> ChangeSequence {
    let start = since.map { SequenceNumber(rawValue: $0) }
    guard let keyspace else {
      if all { return store.contentsAndChanges() }
      return start.map { store.changes(after: $0) } ?? store.changes()
    }
    let part = try store.keyspace(named: keyspace)
    if all { return part.contentsAndChanges() }
    return start.map { part.changes(after: $0) } ?? part.changes()
  }

  private func append(_ change: Store.Change, to text: inout [UInt8]) {
    text.append(contentsOf: "{\"sequence\":\(change.sequence),\"keyspace\":".utf8)
    Text.appendQuoted(change.keyspace.utf8, to: &text)
    text.append(UInt8(ascii: ","))
    Text.appendMember("key", change.key.bytes, to: &text)
    if let value = change.value {
      if !keysOnly {
        text.append(UInt8(ascii: ","))
        Text.appendMember("value", value, to: &text)
      }
    } else {
      text.append(contentsOf: ",\"removed\":true".utf8)
    }
    text.append(contentsOf: "}\n".utf8)
  }
}
