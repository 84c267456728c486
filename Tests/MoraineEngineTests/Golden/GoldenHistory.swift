import MoraineEngine

/// The operations on a golden store, in order: `put KEY VALUE` or `del KEY` on each line, each with
/// the next sequence number from 1 on; `+` precedes all operations of a batch but its last.
struct GoldenHistory: Sendable {
  /// The contents of the store after each number of operations at which a unit ends.
  private(set) var states: [UInt64: GoldenStore.Contents] = [0: [:]]
  private(set) var text = ""
  private var live: GoldenStore.Contents = [:]
  private var count: UInt64 = 0

  init() {}

  init(_ text: String) {
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ").filter { $0 != "+" }
      let value = words[0] == "put" ? GoldenHex.bytes(words[2]) : nil
      add(GoldenHex.bytes(words[1]), value, isLast: line.first != "+")
    }
  }

  /// - Parameter value: nil for a delete.
  mutating func add(
    _ key: [UInt8], _ value: [UInt8]?, in keyspace: String = "", isLast: Bool = true
  ) {
    count += 1
    live[GoldenStore.Place(keyspace: keyspace, key: Key(key))] = value.map {
      GoldenStore.Record(key: key, sequence: count, value: $0)
    }
    text += isLast ? "" : "+ "
    text +=
      value.map { "put \(GoldenHex.text(key)) \(GoldenHex.text($0))\n" }
      ?? "del \(GoldenHex.text(key))\n"
    if isLast { states[count] = live }
  }

  /// The contents after all operations.
  var last: GoldenStore.Contents { live }

  /// Returns the last operation of the longest prefix with these contents.
  func end(of contents: GoldenStore.Contents) -> UInt64? {
    states.filter { $0.value == contents }.keys.max()
  }
}
