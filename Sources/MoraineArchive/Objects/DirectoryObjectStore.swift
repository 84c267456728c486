package import MoraineStorage
public import SystemPackage

/// A store of objects in a directory: on a disk, or on a network file system.
///
/// ```swift
/// let objects = DirectoryObjectStore("/mnt/nas/archives")
/// try await objects.createRoot()   // once, when the place is set up
/// ```
///
/// Each object is a file. The parts of its name are folders, the last part is the name of the file.
/// Other files in the directory are ignored.
///
/// **Atomic and durable.** An object is written to a temporary file and synced. Then the file gets
/// its name in one step, which fails when another file has the name, and the folder is synced.
/// ``get(_:_:)`` syncs the folder too before it returns an object, so that no caller sees an object
/// that a power failure removes. A hard link gives the name; where the file system has no hard
/// links (FAT, exFAT), a rename that keeps an existing file does. A file system with neither is
/// refused when the first object is created.
///
/// **A place that is not mounted.** When a disk is not mounted, its directory is missing or empty.
/// An empty directory must not look like a store without objects. So ``createRoot()`` writes a
/// marker, the file `objects.moraine`, and each request fails with `.unavailable` where the marker
/// is missing. An absence is reported only if the directory has the marker before the look-up, and
/// is still at its path after it.
///
/// **Temporary files.** A crash leaves temporary files. ``list(under:after:limit:)`` does not show
/// them, and removes those that no living process has locked. That is safe at any time, also where
/// locks do not reach other machines: a temporary file gets its name in one step, and without the
/// file this step fails and has no effect. The request can then be repeated.
///
/// **Folders.** In a directory one name cannot be both a file and a folder. While `a/b` exists,
/// creating `a/b/c` fails with `.unsupported`, and so does creating `a/b` while the folder `a/b`
/// exists. Empty folders stay.
///
/// **Network file systems.** The client must not answer from a cache that a name is missing. On
/// Linux, mount NFS with `lookupcache=positive` or `lookupcache=none`. The server must write to
/// stable storage before it answers (`sync`, the usual setting).
///
/// A request that waits for a network file system cannot be cancelled.
public final class DirectoryObjectStore: ObjectStore {
  /// The end of an error's message where the root is missing or has no marker: advice for programs.
  package static let advice = "To begin a store of objects, create its root"

  private let files: ObjectFiles
  private let lanes = RequestLanes()

  /// Uses a directory. ``createRoot()`` must have prepared it once.
  public convenience init(path: FilePath) { self.init(path: path, on: DiskStorage()) }

  /// Uses the directory with this path. ``createRoot()`` must have prepared it once.
  public convenience init(_ path: String) { self.init(path: FilePath(path)) }

  package init(path: FilePath, on storage: any Storage) {
    files = ObjectFiles(path: path, storage: storage)
  }

  /// Creates the directory, when it is missing, and its marker. Its parent must exist. Calling this
  /// again has no effect.
  ///
  /// Call this once, when a person has chosen the place, and not at each start of a program: it
  /// would make a store without objects where a disk is not mounted.
  public func createRoot() async throws(ObjectStoreError) {
    try await lanes.run { [files] () throws(ObjectStoreError) in try files.createRoot() }
  }

  public func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    try await lanes.run { [files] () throws(ObjectStoreError) in try files.create(name, body) }
  }

  public func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    try await lanes.run { [files] () throws(ObjectStoreError) in try files.put(name, body) }
  }

  public func get(
    _ name: ObjectName, _ range: Range<Int>?
  ) async throws(ObjectStoreError) -> [UInt8]? {
    try await lanes.run { [files] () throws(ObjectStoreError) in try files.get(name, range) }
  }

  public func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    try await lanes.run { [files] () throws(ObjectStoreError) in try files.remove(names) }
  }

  /// Returns names under a prefix, in the order of their bytes, and removes abandoned temporary
  /// files from the folders that it reads.
  public func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await lanes.run { [files] () throws(ObjectStoreError) in
      try files.list(under: prefix, after: last, limit: limit)
    }
  }
}
