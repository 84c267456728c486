import ArgumentParser
import BenchmarkSupport
import Foundation
import MoraineEngine

/// Measures the bytes on disk of given values, and the cost of reading one.
struct RatioCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ratio",
    abstract: "Stored bytes for each raw byte, and single reads, before and after compact().",
    discussion: """
      Every line of the input is one value. The key is the line's number in decimal digits, or a \
      field of the object in it; of several with the same key the last counts. Without an input, \
      seeded JSON documents of 175 bytes are stored.
      """)
  @Option(help: "A JSON Lines file.") var input: String?
  @Option(help: "The field that is the key, in the outermost object.") var key: String?
  @Option(help: "How many documents to make where there is no input.") var documents = 100_000
  @Option(help: "Writes the values to this file as well, one a line.") var save: String?
  @Option(help: "Where to make the store.")
  var directory = FileManager.default.currentDirectoryPath
  @Option(help: "How many random reads a run.") var reads = 1_000_000
  @Option(help: "How often the reads run, after one run that does not count.") var runs = 3
  @Flag(inversion: .prefixedNo, help: "Whether compaction looks for dictionaries.")
  var dictionaries = true

  func validate() throws {
    if documents < 1 || reads < 1 || runs < 1 {
      throw ValidationError("documents, reads and runs are at least 1")
    }
    if key != nil && input == nil { throw ValidationError("--key goes with --input") }
  }

  func run() async throws {
    let corpus =
      if let input { try Corpus(jsonLines: input, keyField: key) } else {
        Corpus(documents: documents)
      }
    if let save { try corpus.save(save) }
    guard corpus.count > 0 else { throw ValidationError("the input has no lines") }
    let scratch = try Scratch(in: directory)
    defer { scratch.remove() }
    let measurement = RatioMeasurement(
      corpus: corpus, reads: reads, runs: runs, sharesDictionaries: dictionaries)
    let grid = try await measurement.run(scratch.path("ratio"))
    print(
      """
      \(corpus.count) values of \(megabytes(corpus.valueBytes)) MB, \
      \(decimal(Double(corpus.valueBytes) / Double(corpus.count), 1)) bytes each; keys of \
      \(megabytes(corpus.keyBytes)) MB; reads are medians of \(runs)
      """)
    grid.print()
    print("\n\(reproduction)")
  }
}
