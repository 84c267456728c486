import Foundation
import MoraineArchive
import MoraineEngine
import MoraineStorage
import MoraineTesting
import SystemPackage
import Testing

#if S3
  import MoraineS3
#endif

/// The stores of objects that must behave alike.
enum ObjectMedium: CaseIterable {
  case disk, memory, simulatedDisk, simulatedStore
  /// The bucket that the environment names: see ``bucketAddress``.
  case bucket

  static var allCases: [ObjectMedium] {
    [.disk, .memory, .simulatedDisk, .simulatedStore] + (bucketAddress == nil ? [] : [.bucket])
  }

  /// The address of a bucket for tests. `Scripts/archive` sets the variable.
  static let bucketAddress: String? = {
    #if S3
      ProcessInfo.processInfo.environment["MORAINE_BUCKET"]
    #else
      nil
    #endif
  }()

  /// Stores in which a name is a file or a folder, and never both.
  static let directories: [ObjectMedium] = [.disk, .memory, .simulatedDisk]
}

/// A store of objects without objects, removed with this value.
final class ObjectGround {
  let objects: any ObjectStore
  /// The storage and the path of a ``DirectoryObjectStore``.
  let storage: any Storage
  let path: FilePath
  private let parent: URL?

  init(_ medium: ObjectMedium) async throws {
    if medium == .simulatedStore {
      (storage, path, parent) = (MemoryStorage(), "root", nil)
      objects = SimulatedObjectStore()
      return
    }
    #if S3
      if medium == .bucket {
        (storage, path, parent) = (MemoryStorage(), "root", nil)
        objects = S3ObjectStore(try Self.newPlace())
        return
      }
    #endif
    switch medium {
    case .disk:
      let parent = FileManager.default.temporaryDirectory
        .appendingPathComponent("moraine-\(UUID().uuidString)")
      try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
      (storage, path, self.parent) = (
        DiskStorage(), FilePath(parent.path).appending("root"), parent
      )
    case .memory, .simulatedStore, .bucket: (storage, path, parent) = (MemoryStorage(), "root", nil)
    case .simulatedDisk: (storage, path, parent) = (SimulatedDisk(), "root", nil)
    }
    let directory = DirectoryObjectStore(path: path, on: storage)
    try await directory.createRoot()
    objects = directory
  }

  #if S3
    /// A place in the bucket that no other test uses.
    private static func newPlace() throws -> S3Location {
      let bucket = try S3Location(try #require(ObjectMedium.bucketAddress))
      return try S3Location(
        bucket: bucket.bucket, prefix: "conformance/\(UUID().uuidString)",
        endpoint: bucket.endpoint, region: bucket.region, style: bucket.style,
        provider: bucket.provider)
    }
  #endif

  deinit {
    guard let parent else { return }
    do { try FileManager.default.removeItem(at: parent) } catch { print("left: \(parent.path)") }
  }

  /// Opens a folder of a ``DirectoryObjectStore``; the root for an empty name.
  func folder(_ name: String = "") throws -> any StorageDirectory {
    try #require(try storage.openDirectory(name.isEmpty ? path : path.appending(name)))
  }

  /// The names of the files in a folder that are neither objects nor the marker.
  func temporaryNames(in folder: String = "") throws -> [String] {
    try self.folder(folder).entries().map(\.name).filter { $0.hasSuffix(".new") }
  }
}

extension ObjectBody {
  init(_ text: String) { self.init(Array(text.utf8)) }

  /// A body in pieces of different lengths, some of them empty.
  init(_ bytes: [UInt8], inPiecesOf lengths: [Int]) {
    self.init(byteCount: bytes.count) { visit in
      var (start, number) = (0, 0)
      while start < bytes.count {
        let end = min(start + lengths[number % lengths.count], bytes.count)
        guard bytes[start..<end].withUnsafeBytes({ visit($0) }) else { return }
        (start, number) = (end, number + 1)
      }
    }
  }
}

/// Returns a name that the rules of names allow.
func objectName(_ text: String) -> ObjectName {
  do throws(ArchiveError) { return try ObjectName(text) } catch { preconditionFailure("\(error)") }
}

/// The verbs, with names as text.
extension ObjectStore {
  func create(
    _ name: String, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    try await create(objectName(name), body)
  }

  func put(_ name: String, _ body: ObjectBody) async throws(ObjectStoreError) {
    try await put(objectName(name), body)
  }

  func get(_ name: String, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    try await get(objectName(name), range)
  }

  func remove(_ names: [String]) async throws(ObjectStoreError) {
    try await remove(names.map(objectName))
  }

  /// All names under a prefix.
  func names(under prefix: String = "") async throws(ObjectStoreError) -> [String] {
    try await list(under: objectName(prefix), after: nil, limit: .max).map(\.text)
  }

  /// The object as text; nil when it does not exist.
  func text(_ name: String) async throws(ObjectStoreError) -> String? {
    try await get(objectName(name), nil).map { String(decoding: $0, as: UTF8.self) }
  }
}

/// Returns the error that the request throws.
func objectError(
  _ request: () async throws(ObjectStoreError) -> Void
) async throws -> ObjectStoreError {
  var found: ObjectStoreError?
  do throws(ObjectStoreError) { try await request() } catch { found = error }
  return try #require(found, "the request should fail")
}

/// A sequence of bytes that a seed repeats.
func randomBytes(_ count: Int, seed: UInt64) -> [UInt8] {
  var generator = SeededGenerator(seed: seed)
  return (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
}
