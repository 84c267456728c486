/// A broken promise, with the information that reproduces it.
public struct CrashViolation: Error, Hashable, Codable, Sendable {
  /// Name of the ``CrashScenario``; `experiment` for a ``CrashExperiment``.
  public var scenario: String
  /// Seed of the workload and of the random choices.
  public var seed: UInt64
  /// Crash point and surviving changes, or faults, that led to the violation, in words.
  public var circumstances: String
  /// Difference between the promise and the contents that were found, in words.
  public var finding: String
  /// Descriptions of the fewest steps that were found to reproduce the violation; empty when the
  /// workload was not shortened.
  public var steps: [String] = []
  /// Disk as the crash left it. Not encoded.
  public var image: DiskImage?
  /// Path of the directory into which ``image`` was written; nil when it was not written.
  public var imagePath: String?
  /// Command, or instruction, that reproduces the violation.
  public var replay: String
  /// Faults that led to the violation, in runs of the fault laboratory. Not encoded.
  package var faults: [PlannedFault] = []

  private enum CodingKeys: String, CodingKey {
    case scenario, seed, circumstances, finding, steps, imagePath, replay
  }

  /// Creates a violation without steps and without a disk.
  public init(
    scenario: String, seed: UInt64, circumstances: String, finding: String, replay: String
  ) {
    self.scenario = scenario
    self.seed = seed
    self.circumstances = circumstances
    self.finding = finding
    self.replay = replay
  }
}

extension CrashViolation: CustomStringConvertible {
  public var description: String {
    var lines = ["\(scenario), seed \(seed), \(circumstances):", "  \(finding)"]
    if !steps.isEmpty {
      lines.append("  the fewest steps that lead there:")
      lines += steps.map { "    \($0)" }
    }
    if let imagePath { lines.append("  the disk is in \(imagePath)") }
    lines.append("  again: \(replay)")
    return lines.joined(separator: "\n")
  }
}
