public import MoraineEngine

/// A kind of work that the laboratory crashes: a configuration and a shape of workloads.
public struct CrashScenario: Sendable {
  /// What it is called on the command line.
  public var name: String
  /// What it is there for.
  public var summary: String
  /// Of its store.
  public var configuration: Store.Configuration
  /// What its workloads look like.
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
