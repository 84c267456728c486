import ArgumentParser

/// Moraine and its peers, side by side.
@main
struct MoraineCompare: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "MoraineCompare",
    abstract: "Measures Moraine and other storage engines on the same work, in one run.",
    subcommands: [RunCommand.self, DrawCommand.self, MeasureCommand.self],
    defaultSubcommand: RunCommand.self)
}
