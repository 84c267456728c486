/// A promise that was not kept, with what is needed to see it again.
public struct CrashViolation: Error, Hashable, Codable, Sendable {
  /// Which work; of an experiment, its name.
  public var scenario: String
  /// Which workload of it.
  public var seed: UInt64
  /// What was tried: which crash point and what survived, or which fault.
  public var circumstances: String
  /// What was found instead of what was promised.
  public var finding: String
  /// The fewest steps that were found to lead there.
  public var steps: [String] = []
  /// The disk as the crash left it.
  public var image: DiskImage?
  /// Where that was written, to be looked at.
  public var imagePath: String?
  /// The command that tries it again.
  public var replay: String
  /// The faults that lead there, of those that the fault laboratory tries.
  package var faults: [PlannedFault] = []

  private enum CodingKeys: String, CodingKey {
    case scenario, seed, circumstances, finding, steps, imagePath, replay
  }

  /// A violation without steps and disk.
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
