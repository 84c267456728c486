import ArgumentParser
import Moraine

struct Watch: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints what changes, as it happens, whichever process does it.",
    discussion: """
      One JSON object a line, at once: sequence, keyspace, key, and either value or
      "removed":true. Bytes that are not UTF-8 have "keyHex" or "valueHex" in its
      place, with hexadecimal digits. Ends at --limit changes, or when it is stopped.

      It begins with the next change; with --since N behind that sequence number;
      with --all at the beginning of the log, which tells of everything that is live
      and perhaps of what was overwritten or removed since. Where compaction has
      dropped removals since N, it says so and ends with exit code 2: begin again
      with --all.

      A store that several processes share is watched while they write; who wants
      it for itself is refused (locked) until the watching ends. One that a program
      has for itself is locked: there the program calls changes(since:).

        moraine watch users.moraine --since 81234 | jq -r .key
      """)
  @OptionGroup var store: StoreOptions
  @Option(help: "Only this keyspace; \"\" for the unnamed one.") var keyspace: String?
  @Option(help: "The last operation that was seen.") var since: UInt64?
  @Flag(help: "All that the log has first.") var all = false
  @Flag(help: "Leave the values out.") var keysOnly = false
  @Option(help: "Stop after so many.") var limit: Int?

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
        let last = await store.statistics.lastSequence
        guard since <= last.rawValue else {
          throw Failure.usage("--since \(since): the store has only reached \(last)")
        }
      }
      var count = 0
      for try await change in try changes(of: store) {
        try Output.write { append(change, to: &$0) }
        // Whoever reads this waits for it.
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
      return start.map { store.changes(behind: $0) } ?? store.changes()
    }
    let part = try store.keyspace(named: keyspace)
    if all { return part.contentsAndChanges() }
    return start.map { part.changes(behind: $0) } ?? part.changes()
  }

  private func append(_ change: Change, to text: inout [UInt8]) {
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
