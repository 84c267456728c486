package import MoraineStorage
import Synchronization
package import SystemPackage

/// A disk in memory that knows which changes survive a power failure.
///
/// Bytes and lengths are durable after a sync of their file, names after a sync of their directory,
/// and a directory with its contents after a sync of its parent. A sync covers what was there when
/// it began, and nothing that changes while it runs. All other changes may survive a crash or not,
/// in any combination; ``image(_:)`` draws one combination. A failed sync can drop
/// the pages that it should have written, as Linux does (Rebello et al., "Can Applications Recover
/// from fsync Failures?", USENIX ATC 2020). If the file had no bytes there before, such pages are
/// lost for good, as on ext4: even if they are written again in place and synced, they read as
/// zeros after a power failure. A store on a simulated disk runs the same code of the engine as a
/// store on a real disk.
public final class SimulatedDisk: Sendable {
  private let memory: MemoryStorage
  private let directories = Mutex<[String: SimulatedNames]>([:])
  private let observer = Mutex<(@Sendable () -> Void)?>(nil)
  private let latency: SimulatedLatency

  /// Creates an empty disk.
  ///
  /// - Parameters:
  ///   - capacityBytes: the limit for all files together, counted in blocks of 4 KiB for each file.
  ///   - latency: the least time that each call takes.
  public init(capacityBytes: Int = .max, latency: SimulatedLatency = .none) {
    memory = MemoryStorage(capacityBytes: capacityBytes)
    self.latency = latency
  }

  /// Creates a disk from an image; all of it is durable.
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

  /// Creates a disk in the state of another disk at a moment, with the same changes durable.
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

  /// The object of a sync.
  package enum SyncKind: Int, CaseIterable, Sendable {
    case file, directory, parent
  }

  /// A bit for each kind of sync that does nothing and succeeds.
  private let omittedKinds = Atomic(0)

  /// Makes later syncs of one kind do nothing and succeed, as if the engine had omitted them. Tests
  /// use it to see that the laboratory notices.
  package func omitSyncs(of kind: SyncKind) {
    omittedKinds.bitwiseOr(1 << kind.rawValue, ordering: .relaxed)
  }

  /// Relaxed: a test sets the bits before the calls in question, and no other memory depends on
  /// them.
  func omits(_ kind: SyncKind) -> Bool {
    omittedKinds.load(ordering: .relaxed) & 1 << kind.rawValue != 0
  }

  /// Whether ``openStore(at:configuration:faults:)`` avoids mappings, so that each write is a call
  /// that the observer sees.
  let isNeverMapped = Atomic(false)

  /// Sets the function that runs before each call that may change the disk, on the thread of the
  /// call.
  package func setObserver(_ body: (@Sendable () -> Void)?) { observer.withLock { $0 = body } }

  func willChange() {
    latency.pass()
    let body = observer.withLock { $0 }
    body?()
  }

  /// Runs the body. If there was no space, makes removals durable and runs the body again.
  ///
  /// A file system reuses the blocks of a removed file once the removal is durable, and makes it
  /// durable when it needs the blocks.
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

  /// The present state of the disk, with what is durable.
  package func moment() -> DiskMoment {
    let paths = directories.withLock { $0 }
    var moment = DiskMoment()
    for (path, names) in paths.sorted(by: { $0.key < $1.key }) {
      moment.directories.append(names.directory(at: path))
    }
    return moment
  }

  /// An image that a crash at this moment may leave. The disk itself stays as it is.
  public func image(_ policy: CrashPolicy) -> DiskImage { moment().image(policy) }

  /// The paths of all directories created on this disk, including removed ones.
  public var directoryPaths: [String] { directories.withLock { $0.keys.sorted() } }

  /// A sentence about directories that do not belong to the store of this path; nil when there are
  /// none.
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

  /// Makes two calls, as a real disk does: one creates the directory, one syncs its parent.
  package func createDirectory(_ path: FilePath) throws(StorageError) {
    willChange()
    try makeDirectory(path)
    willChange()
    if !omits(.parent) { names(at: path).synchronizeName() }
  }

  /// Creates a directory as a user does, without a sync: a power failure may remove it.
  package func makeDirectory(_ path: FilePath) throws(StorageError) {
    try memory.createDirectory(path)
    _ = names(at: path)
  }
}
