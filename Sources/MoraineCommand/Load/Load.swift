import ArgumentParser
import Moraine
import SystemPackage

struct Load: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Stores JSON Lines; the bytes of a line are the value.",
    discussion: """
      The key is the string in the field, or its number exactly as written: 7 and
      "7" are one key, 7 and 7.0 are two. If a key occurs twice, the last line
      wins. Blank lines are skipped.

      All lines are checked before the first is stored, and stored as one atomic
      batch. With --batch N the input is read as a stream, and every N lines are
      a batch; batches before a bad line stay in the store. A bad line ends the
      command with the number of the line and exit code 2.

      With --ordered the keyspace is ordered: scan then prints it in the order of its
      keys. A keyspace that exists becomes ordered.

        moraine load users.moraine users.jsonl --key email
        zcat log.jsonl.gz | moraine load log.moraine --batch 10000
      """)
  @OptionGroup var store: StoreOptions
  @OptionGroup var keyspace: KeyspaceOptions
  @Argument(help: "The file. Default, and -: standard input.") var file: String?
  @Option(help: "The field that holds the key.") var key = "id"
  @Flag(help: "Load into an ordered keyspace.") var ordered = false
  @Option(help: "Commit after each group of this number of lines.") var batch: Int?

  func validate() throws {
    if let batch, batch < 1 { throw ValidationError("--batch takes a number from 1") }
  }

  func run() async throws {
    var loading = Loading(
      options: store, keyspace: keyspace, inputName: file ?? "standard input",
      batchLimit: batch, isOrdered: ordered)
    var lines = try open()
    let bar = ProgressBar("loading")
    do {
      try await loading.take(&lines, KeyField(name: key), bar)
      try await loading.finish(bar)
    } catch {
      bar.finish()
      await loading.abandon()
      throw error
    }
    bar.finish()
    try Output.line("loaded \(loading.storedCount) records")
  }

  private func open() throws -> LineReader {
    let limit = StoreLimits.valueLengthBytes
    guard let file, file != "-" else { return LineReader(.standardInput, limitBytes: limit) }
    do {
      let descriptor = try FileDescriptor.open(FilePath(file), .readOnly, options: .closeOnExec)
      return LineReader(descriptor, limitBytes: limit, isOwned: true)
    } catch {
      throw Failure.usage("cannot read \(file): \(error)")
    }
  }
}
