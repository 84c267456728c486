import ArgumentParser
import Moraine

struct Dump: AsyncParsableCommand {
  enum Format: String, ExpressibleByArgument, CaseIterable {
    case jsonl, hex
  }

  static let configuration = CommandConfiguration(
    abstract: "Prints all live records of a keyspace, in log order.",
    discussion: """
      jsonl prints the bytes of each value, in the form that load reads. hex
      prints key, sequence number and value, with key and value in hexadecimal
      digits (- stands for no bytes), and represents any bytes. Neither prints
      when an entry expires: copy a store with backup to keep that.

        moraine dump users.moraine | moraine load copy.moraine
      """)
  @OptionGroup var store: StoreOptions
  @OptionGroup var keyspace: KeyspaceOptions
  @Option(help: "The format of a line.") var format = Format.jsonl

  func run() async throws {
    try await store.reading { store in
      let named = try keyspace(store)
      var isEmpty = true
      try await named.scan { entry in
        isEmpty = false
        try Output.write { text in
          switch format {
          case .jsonl: text.append(contentsOf: entry.value)
          case .hex:
            Hexadecimal.append(entry.key.bytes, to: &text)
            text.append(contentsOf: " \(entry.sequence) ".utf8)
            Hexadecimal.append(entry.value, to: &text)
          }
          text.append(UInt8(ascii: "\n"))
        }
        return true
      }
      // No error: a program may be killed before it makes the keyspace.
      if isEmpty { try await store.noteNamedKeyspaces(beside: named) }
    }
  }
}
