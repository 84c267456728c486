public import MoraineEngine
import Synchronization
public import SystemPackage

extension SimulatedDisk {
  /// Opens a store on this disk, like `Store.init(at:configuration:)`.
  ///
  /// - Parameters:
  ///   - path: any name; directories on a simulated disk need no parent.
  ///   - configuration: the configuration of the store.
  ///   - faults: the faults that strike while this store is open.
  public func openStore(
    at path: FilePath = "store", configuration: Store.Configuration = .init(),
    faults: [DiskFault] = []
  ) throws(StoreError) -> Store {
    var configuration = configuration
    if isNeverMapped.load(ordering: .relaxed) { configuration.ioMode = .positional }
    if faults.isEmpty { return try Store(on: self, at: path, configuration: configuration) }
    let plan = FaultPlan(faults)
    let storage = FaultStorage(self)
    storage.setScript { plan.fault(for: $0) }
    return try Store(on: storage, at: path, configuration: configuration)
  }
}
