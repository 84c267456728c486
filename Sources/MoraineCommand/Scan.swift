import ArgumentParser
import Moraine

struct Scan: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Prints keys and values, in key order where the keyspace is ordered.",
    discussion: """
      An ordered keyspace is printed in the order of its keys, another one in the
      order of the log.

      Each line is key, tab, value, for people to read: control characters and
      bytes that are not UTF-8 are printed as \\xNN.

      For scripts, --json prints {"key":"…","sequence":12,"value":"…"}. If a key or
      value is not UTF-8, the member is "keyHex" or "valueHex" instead, with
      hexadecimal digits.

        moraine scan users.moraine --prefix user/ --json | jq -r .key
      """)
  @OptionGroup var store: StoreOptions
  @OptionGroup var keyspace: KeyspaceOptions
  @Option(help: "Print only keys that begin with this text.") var prefix: String?
  @Option(help: "Print only keys from this text on. In ordered keyspaces.") var from: String?
  @Option(help: "Print only keys before this text. In ordered keyspaces.") var to: String?
  @Flag(help: "Begin with the last key. In ordered keyspaces.") var reverse = false
  @Flag(help: "Leave the values out.") var keysOnly = false
  @Option(help: "Stop after this number of keys.") var limit: Int?
  @Flag(help: "Print one JSON object per line.") var json = false

  func validate() throws {
    if let limit, limit < 0 { throw ValidationError("--limit takes a number from 0") }
  }

  func run() async throws {
    try await store.reading { store in try await list(store) }
  }

  // The optimizer of Swift 6.3.1 crashes where it inlines this into `closed(after:)`.
  @inline(never)
  private func list(_ store: Store) async throws {
    let named = try await store.existingKeyspace(named: keyspace.name)
    let most = limit ?? Int.max
    guard most > 0 else { return }
    var count = try await scanInOrder(named, most)
    if count == nil { count = try await scanLog(named, most) }
    if count == 0 { try await store.noteNamedKeyspaces(beside: named) }
  }

  /// Prints the entries of a keyspace in the order of the log, and returns their number.
  private func scanLog(_ keyspace: Keyspace, _ most: Int) async throws -> Int {
    let wanted = Array((prefix ?? "").utf8)
    var count = 0
    try await keyspace.scan { entry in
      guard entry.key.bytes.starts(with: wanted) else { return true }
      try Output.write { append(entry, to: &$0) }
      count += 1
      return count < most
    }
    return count
  }

  /// Prints the entries of an ordered keyspace, at one moment.
  ///
  /// - Returns: the number of entries; nil when the keyspace is not ordered. Nothing was printed
  ///   then.
  private func scanInOrder(_ keyspace: Keyspace, _ most: Int) async throws -> Int? {
    let snapshot = try await keyspace.store.snapshot().keyspace(named: keyspace.name)
    var count = 0
    do {
      let range = KeyRange(from: from.map { Key($0) }, upTo: to.map { Key($0) })
        .intersection(.prefix(Key(prefix ?? "")))
      try snapshot.scan(in: range, order: reverse ? .descending : .ascending) { entry in
        try Output.write { append(entry, to: &$0) }
        count += 1
        return count < most
      }
      return count
    } catch let error as StoreError where error.code == .invalidArgument {
      guard from == nil, to == nil, !reverse else {
        let name = Text.printable(keyspace.name.utf8)
        throw Failure.usage(
          "--from, --to and --reverse need an ordered keyspace, and "
            + (name.isEmpty ? "the unnamed one" : "'\(name)'")
            + " is not ordered; 'moraine load --ordered' makes a keyspace ordered")
      }
      return nil
    }
  }

  private func append(_ entry: Store.Entry, to text: inout [UInt8]) {
    if json {
      text.append(UInt8(ascii: "{"))
      Text.appendMember("key", entry.key.bytes, to: &text)
      text.append(contentsOf: ",\"sequence\":\(entry.sequence)".utf8)
      if !keysOnly {
        text.append(UInt8(ascii: ","))
        Text.appendMember("value", entry.value, to: &text)
      }
      text.append(UInt8(ascii: "}"))
    } else {
      Text.appendPrintable(entry.key.bytes, to: &text)
      if !keysOnly {
        text.append(UInt8(ascii: "\t"))
        Text.appendPrintable(entry.value, to: &text)
      }
    }
    text.append(UInt8(ascii: "\n"))
  }
}
