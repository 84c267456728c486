public import MoraineEngine

/// A kind of work that the laboratory crashes: a configuration and a shape of workloads.
public struct CrashScenario: Sendable {
  /// Name of the scenario on the command line.
  public var name: String
  /// Purpose of the scenario, in one sentence.
  public var summary: String
  /// Configuration of the store.
  public var configuration: Store.Configuration
  /// Shape of the workloads.
  public var shape: WorkloadShape
  /// The size of the disk; `.max` for one that is never full.
  public var capacityBytes = Int.max
  /// Whether what goes on in the background has ended before the next step begins. Then a seed
  /// leads to the same calls each time.
  public var isSerial = true
  /// The kind of syncs that do nothing on its disk; nil for none.
  package var omittedSyncs: SimulatedDisk.SyncKind?
  /// How long the disk's calls take.
  public var latency = SimulatedLatency.none

  /// A scenario on a disk that is never full, and answers at once.
  public init(
    _ name: String, _ summary: String, configuration: Store.Configuration, shape: WorkloadShape
  ) {
    self.name = name
    self.summary = summary
    self.configuration = configuration
    self.shape = shape
  }
}
