import ArgumentParser

/// The benchmarks. Without a subcommand the program prints the table of single operations.
@main
struct MoraineBenchmark: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Measures a Moraine store.",
    subcommands: [
      TableCommand.self, CompactionCommand.self, OpenCommand.self, RatioCommand.self,
      PatternCommand.self, SharingCommand.self, WriteAndDieCommand.self, ShareAndWriteCommand.self,
    ],
    defaultSubcommand: TableCommand.self)
}
