import MoraineEngine

extension CrashScenario {
  /// All scenarios of the laboratory, each with mapped and with positional writes.
  public static let catalog: [CrashScenario] =
    [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
      stories.map { story in
        var scenario = story
        scenario.name += mode == .mapped ? "-mapped" : "-positional"
        scenario.configuration.ioMode = mode
        return scenario
      }
    }

  /// Returns the scenario of a name in ``catalog``, or nil.
  public static func named(_ name: String) -> CrashScenario? { catalog.first { $0.name == name } }

  private static let stories: [CrashScenario] =
    basics + durabilities + rotations + compactions + keyspaces + checkpoints + lives + limits
    + sharing + snapshots

  static func story(
    _ name: String, _ summary: String, segmentSizeBytes: Int = 20_000,
    _ change: (inout Store.Configuration, inout WorkloadShape) -> Void = { _, _ in }
  ) -> CrashScenario {
    var configuration = Store.Configuration()
    configuration.segmentSizeBytes = segmentSizeBytes
    configuration.durability = .none
    configuration.compaction = .manual
    var shape = WorkloadShape()
    change(&configuration, &shape)
    return CrashScenario(name, summary, configuration: configuration, shape: shape)
  }
}
