public import MoraineEngine

/// A kind of work that the laboratory crashes: a configuration of the store and a shape of the
/// workloads.
public struct CrashScenario: Sendable {
  /// Name of the scenario on the command line.
  public var name: String
  /// Purpose of the scenario, in a few words.
  public var summary: String
  /// Configuration of the store.
  public var configuration: Store.Configuration
  /// Shape of the workloads.
  public var shape: WorkloadShape
  /// Size of the disk, in bytes; `.max` for a disk that is never full.
  public var capacityBytes = Int.max
  /// Whether each step waits until the background work of the previous step has ended. If it does,
  /// a seed leads to the same calls each time.
  public var isSerial = true
  /// Kind of syncs that do nothing on the disk of the scenario; nil for none.
  package var omittedSyncs: SimulatedDisk.SyncKind?
  /// Time that the calls of the disk take.
  public var latency = SimulatedLatency.none

  /// Creates a scenario on a disk that is never full and whose calls take no time.
  public init(
    _ name: String, _ summary: String, configuration: Store.Configuration, shape: WorkloadShape
  ) {
    self.name = name
    self.summary = summary
    self.configuration = configuration
    self.shape = shape
  }
}
