import ArgumentParser
import Foundation

/// Measures one group of one engine in a separate process, so that its memory and its effects on
/// the process do not reach other groups.
struct MeasureCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "measure", abstract: "Measures one group of rows of one engine; prints JSON.")
  @Option(help: "Of which engine.") var engine: String
  @Option(help: "Which rows.") var group: String
  @Option(help: "An empty folder for its stores.") var folder: String
  @Option(help: "How much: the parent's figures, as JSON.") var size: String

  func run() async throws {
    let size = try JSONDecoder().decode(Size.self, from: Data(size.utf8))
    let recorder = try await Plan(size: size).measure(group, of: engine, in: folder)
    FileHandle.standardOutput.write(try JSONEncoder().encode(recorder))
  }
}
