package import MoraineStorage
import Synchronization
package import SystemPackage

/// A disk in memory that knows what a power failure would leave of it.
///
/// Bytes and lengths are safe once their file was synced, names once their directory was, a
/// directory with all that is in it once its parent was. All else may be there after a crash or
/// not, in any combination: ``image(_:)`` draws one. A sync that fails can drop what it should have
/// written, as Linux does (Rebello et al., "Can Applications Recover from fsync Failures?", USENIX
/// ATC 2020). Where a file had no bytes before, they are lost for good, as on ext4: written again
/// in place and synced, they still read as zeros after a power failure. Production and simulation
/// share every line of the engine.
///
/// ```swift
/// let disk = SimulatedDisk()
/// let store = try disk.openStore()
/// try await store.set([1], forKey: "a", durability: .sync)
/// let after = try SimulatedDisk(disk.image(.nothing)).openStore()
/// ```
///
/// Thread safety: one lock protects the names. The bytes are memory, and the engine orders its
/// accesses as it does for a real disk.
public final class SimulatedDisk: Sendable {
  private let memory: MemoryStorage
  private let directories = Mutex<[String: SimulatedNames]>([:])
  private let observer = Mutex<(@Sendable () -> Void)?>(nil)
  private let latency: SimulatedLatency

  /// An empty disk.
  ///
  /// - Parameters:
  ///   - capacityBytes: what all files together may take, in whole blocks of 4 KiB each.
  ///   - latency: how long each call takes, at least.
  public init(capacityBytes: Int = .max, latency: SimulatedLatency = .none) {
    memory = MemoryStorage(capacityBytes: capacityBytes)
    self.latency = latency
  }

  /// A disk as a crash left it, all of it safe.
  public convenience init(
    _ image: DiskImage, capacityBytes: Int = .max, latency: SimulatedLatency = .none
  ) {
    self.init(capacityBytes: capacityBytes, latency: latency)
    do throws(StorageError) {
      for (path, files) in image.directories { try restore(files, at: FilePath(path)) }
    } catch {
      fatalError("an image did not fit into memory: \(error)")
    }
  }

  /// A disk that is at a moment as another one was, with what is safe there and what is not.
  package convenience init(
    _ moment: DiskMoment, capacityBytes: Int = .max, latency: SimulatedLatency = .none
  ) {
    self.init(moment.image(.everything), capacityBytes: capacityBytes, latency: latency)
    for directory in moment.directories { names(at: FilePath(directory.path)).restore(directory) }
  }

  private func restore(_ files: [String: [UInt8]], at path: FilePath) throws(StorageError) {
    try memory.createDirectory(path)
    guard let target = try memory.openDirectory(path) else { return }
    let names = names(at: path)
    for (name, bytes) in files {
      let file = try target.createFile(name)
      try bytes.withUnsafeBufferPointer { (buffer) throws(StorageError) in
        try file.write(UnsafeRawBufferPointer(buffer), at: 0)
      }
      let content = try target.openFile(name, .read)
      names.add(name, SimulatedContent(content ?? file, synced: bytes))
    }
    names.synchronize()
    names.synchronizeName()
  }

  /// What a sync can be of.
  package enum SyncKind: Int, CaseIterable, Sendable {
    case file, directory, parent
  }

  /// Bits of the kinds of syncs that do nothing and succeed.
  private let omittedKinds = Atomic(0)

  /// From now on syncs of one kind do nothing, as if the engine had forgotten them: for trying
  /// whether the laboratory finds that.
  package func omitSyncs(of kind: SyncKind) {
    omittedKinds.bitwiseOr(1 << kind.rawValue, ordering: .relaxed)
  }

  /// A test sets it before the calls that it is about; it orders nothing else.
  func omits(_ kind: SyncKind) -> Bool {
    omittedKinds.load(ordering: .relaxed) & 1 << kind.rawValue != 0
  }

  /// Whether ``openStore(at:configuration:faults:)`` has every write be a call, which an observer
  /// sees.
  let isNeverMapped = Atomic(false)

  /// Called before every call that may change the disk, on the thread of the call.
  package func setObserver(_ body: (@Sendable () -> Void)?) { observer.withLock { $0 = body } }

  func willChange() {
    latency.pass()
    let body = observer.withLock { $0 }
    body?()
  }

  /// Runs the body again when there was no space, with that of removed files.
  ///
  /// A file system gives the blocks of a removed file away when the removal is safe, and makes it
  /// so when it has no others.
  func makingSpace(_ body: () throws(StorageError) -> Void) throws(StorageError) {
    do throws(StorageError) { try body() } catch {
      guard error.isNoSpace else { throw error }
      for names in directories.withLock({ Array($0.values) }) { names.synchronize() }
      try body()
    }
  }

  func names(at path: FilePath) -> SimulatedNames {
    directories.withLock { directories in
      if let names = directories[path.string] { return names }
      let names = SimulatedNames()
      directories[path.string] = names
      return names
    }
  }

  /// What is on it now and what is safe.
  package func moment() -> DiskMoment {
    let paths = directories.withLock { $0 }
    var moment = DiskMoment()
    for (path, names) in paths.sorted(by: { $0.key < $1.key }) {
      moment.directories.append(names.directory(at: path))
    }
    return moment
  }

  /// What a crash at this moment may leave; this disk goes on as before.
  public func image(_ policy: CrashPolicy) -> DiskImage { moment().image(policy) }

  /// The paths of all directories that were ever made on it.
  public var directoryPaths: [String] { directories.withLock { $0.keys.sorted() } }

  /// What is on it that a store of that path has no business with, in words; nil when there is
  /// nothing.
  func trespass(beside store: String) -> String? {
    let others = directoryPaths.filter { $0 != store }
    return others.isEmpty ? nil : "it wrote outside its directory: \(others)"
  }
}

extension SimulatedDisk: Storage {
  package func openDirectory(_ path: FilePath) throws(StorageError) -> (any StorageDirectory)? {
    guard let base = try memory.openDirectory(path) else { return nil }
    return SimulatedDirectory(base, names(at: path), self)
  }

  /// Makes two calls, like a real disk: one creates the directory, one syncs its parent.
  package func createDirectory(_ path: FilePath) throws(StorageError) {
    willChange()
    try makeDirectory(path)
    willChange()
    if !omits(.parent) { names(at: path).synchronizeName() }
  }

  /// Makes a directory as a user does: a power failure may take it.
  package func makeDirectory(_ path: FilePath) throws(StorageError) {
    try memory.createDirectory(path)
    _ = names(at: path)
  }
}
