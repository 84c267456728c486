import MoraineStorage
import Synchronization
import SystemPackage

/// The files of a ``DirectoryObjectStore``. Every call may block.
///
/// Thread safety: the file system orders the calls. A lock protects the set of known folders; it is
/// not held during a call of the storage.
final class ObjectFiles: Sendable {
  /// The file whose presence distinguishes the root from an empty directory. The point keeps its
  /// name apart from the names of objects, also where a file system ignores case.
  static let markerName = "objects.moraine"
  private static let markerText =
    "This directory is a store of objects of Moraine. Keep this file.\n"

  let path: FilePath
  let storage: any Storage
  /// The folders whose names this process has made durable.
  private let durableFolders = Mutex<Set<String>>([])

  init(path: FilePath, storage: any Storage) {
    self.storage = storage
    // The current directory of the process may change later. When it cannot be read, each request
    // reports that.
    do throws(StorageError) { self.path = try storage.absolute(path) } catch { self.path = path }
  }

  func createRoot() throws(ObjectStoreError) {
    let found = try attempt(nil) { () throws(StorageError) in
      try storage.createDirectory(path)
      return try storage.openDirectory(path)
    }
    guard let root = found else { throw missingRoot() }
    let isMarked = try attempt(nil) { () throws(StorageError) in
      try root.extent(of: Self.markerName) != nil
    }
    if !isMarked {
      let file = try TemporaryFile(
        ObjectBody(Array(Self.markerText.utf8)), in: root, for: nil)
      defer { file.remove() }
      _ = try attempt(nil) { () throws(StorageError) in
        try root.renameIfAbsent(file.name, to: Self.markerName)
      }
    }
    try attempt(nil) { () throws(StorageError) in try root.synchronize() }
  }

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) throws(ObjectStoreError) -> ObjectCreation {
    let root = try openRoot(name)
    let folder = try makeFolder(of: name, root)
    let last = try checkedLastPart(of: name)
    let isTaken = try attempt(name) { () throws(StorageError) in
      try folder.extent(of: last) != nil
    }
    if isTaken {
      try confirm(name, folder, root, mayHaveHadEffect: false)
      return .exists
    }
    let file = try TemporaryFile(body, in: folder, for: name)
    var isCreated = false
    defer { if !isCreated { file.remove() } }
    isCreated = try naming(name) { () throws(StorageError) in
      try folder.renameIfAbsent(file.name, to: last)
    }
    // The caller may use an object that another request has created, so its name becomes durable
    // too.
    try confirm(name, folder, root, mayHaveHadEffect: isCreated)
    return isCreated ? .created : .exists
  }

  func put(_ name: ObjectName, _ body: ObjectBody) throws(ObjectStoreError) {
    let root = try openRoot(name)
    let folder = try makeFolder(of: name, root)
    let last = try checkedLastPart(of: name)
    let file = try TemporaryFile(body, in: folder, for: name)
    var isNamed = false
    defer { if !isNamed { file.remove() } }
    try naming(name) { () throws(StorageError) in
      do throws(StorageError) { try folder.rename(file.name, to: last) } catch {
        // A network file system may have repeated a rename whose answer was lost.
        guard error.errno == .noSuchFileOrDirectory, try file.isNamed(last) else { throw error }
      }
    }
    isNamed = true
    try confirm(name, folder, root, mayHaveHadEffect: true)
  }

  func get(
    _ name: ObjectName, _ range: Range<Int>?
  ) throws(ObjectStoreError) -> [UInt8]? {
    let root = try openRoot(name)
    guard let folder = try openFolder(of: name, root),
      let file = try openObject(name, in: folder)
    else {
      try checkInPlace(root, name, mayHaveHadEffect: false)
      return nil
    }
    return try attempt(name) { () throws(StorageError) in
      try folder.synchronize()
      return try Self.bytes(of: file, range)
    }
  }

  func remove(_ names: [ObjectName]) throws(ObjectStoreError) {
    let root = try openRoot(names.first)
    var folder: (any StorageDirectory)?
    var folderName: String?
    var isRemoved = false
    // In this order, the objects of one folder mostly follow each other.
    for name in names.sorted() {
      if folderName != Self.folderText(of: name) {
        if let folder { try sync(folder, name, mayHaveHadEffect: isRemoved) }
        folder = try reporting(isRemoved) { () throws(ObjectStoreError) in
          try openFolder(of: name, root)
        }
        folderName = Self.folderText(of: name)
      }
      guard let folder else { continue }
      try reporting(isRemoved) { () throws(ObjectStoreError) in
        try remove(name, from: folder)
      }
      isRemoved = true
    }
    if let folder { try sync(folder, names.last, mayHaveHadEffect: isRemoved) }
    try checkInPlace(root, names.first, mayHaveHadEffect: isRemoved)
  }

  /// Removes one object. A folder with the name stays: it is no object.
  private func remove(
    _ name: ObjectName, from folder: any StorageDirectory
  ) throws(ObjectStoreError) {
    do throws(StorageError) { try folder.remove(Self.lastPart(of: name)) } catch {
      if isFolder(place(of: name)) { return }
      throw Self.error(error, name, mayHaveHadEffect: !Self.isDefinite(error))
    }
  }
}

/// Places: the root, and the folders in it.
extension ObjectFiles {
  /// Opens the root, which must have its marker.
  func openRoot(_ name: ObjectName?) throws(ObjectStoreError) -> any StorageDirectory {
    let found = try attempt(name) { () throws(StorageError) in try storage.openDirectory(path) }
    guard let root = found else { throw missingRoot() }
    let isMarked = try attempt(name) { () throws(StorageError) in
      try root.extent(of: Self.markerName) != nil
    }
    guard isMarked else {
      throw ObjectStoreError(
        .unavailable,
        "the directory '\(path)' is not a store of objects: the file '\(Self.markerName)' is "
          + "missing. If a disk or a network file system belongs there, mount it. "
          + DirectoryObjectStore.advice, object: name, mayHaveHadEffect: false)
    }
    return root
  }

  private func missingRoot() -> ObjectStoreError {
    ObjectStoreError(
      .unavailable,
      "the directory '\(path)' does not exist. If a disk or a network file system belongs there, "
        + "mount it. " + DirectoryObjectStore.advice, mayHaveHadEffect: false)
  }

  /// Throws when the root is no longer at its path: its file system was unmounted.
  func checkInPlace(
    _ root: any StorageDirectory, _ name: ObjectName?, mayHaveHadEffect: Bool
  ) throws(ObjectStoreError) {
    let isInPlace = try attempt(name, mayHaveHadEffect: mayHaveHadEffect) {
      () throws(StorageError) in try root.isInPlace()
    }
    guard isInPlace else {
      throw ObjectStoreError(
        .unavailable, "the directory '\(path)' was unmounted or replaced during the request",
        object: name, mayHaveHadEffect: mayHaveHadEffect)
    }
  }

  static func lastPart(of name: ObjectName) -> String {
    guard let last = name.parts.last else {
      preconditionFailure("the root of a store of objects is not an object")
    }
    return String(last)
  }

  /// The name of the folder of an object; empty for the root.
  static func folderText(of name: ObjectName) -> String {
    name.parts.dropLast().joined(separator: "/")
  }

  func place(of name: ObjectName) -> FilePath { path.appending(name.text) }

  /// Whether a path leads to a folder. False where that cannot be found out.
  private func isFolder(_ place: FilePath) -> Bool {
    do throws(StorageError) { return try storage.openDirectory(place) != nil } catch {
      return false
    }
  }

  /// Whether a name in a folder is the name of a regular file. False where that cannot be found
  /// out.
  private func isFile(_ name: String, in folder: any StorageDirectory) -> Bool {
    do throws(StorageError) { return try folder.openFile(name, .read) != nil } catch {
      return false
    }
  }

  /// Returns the last part of an object's name.
  ///
  /// - Throws: `.unsupported` when a folder has the name.
  private func checkedLastPart(of name: ObjectName) throws(ObjectStoreError) -> String {
    guard !isFolder(place(of: name)) else {
      throw ObjectStoreError(
        .unsupported,
        "the name is that of a folder with other objects; in a directory, no object can have it",
        object: name, mayHaveHadEffect: false)
    }
    return Self.lastPart(of: name)
  }

  /// Opens the folder of an object. Returns nil when it does not exist.
  private func openFolder(
    of name: ObjectName, _ root: any StorageDirectory
  ) throws(ObjectStoreError) -> (any StorageDirectory)? {
    let text = Self.folderText(of: name)
    if text.isEmpty { return root }
    do throws(StorageError) { return try storage.openDirectory(path.appending(text)) } catch {
      if error.errno == .notDirectory, isUnderObject(name, root) { return nil }
      throw Self.error(error, name, mayHaveHadEffect: false)
    }
  }

  /// Whether a part of the folder's name is the name of an object. Then the folder cannot exist. A
  /// link in place of a folder is another error, because the folder may exist elsewhere.
  private func isUnderObject(_ name: ObjectName, _ root: any StorageDirectory) -> Bool {
    var (place, parent) = (path, root)
    for part in name.parts.dropLast() {
      if isFile(String(part), in: parent) { return true }
      place.append(String(part))
      do throws(StorageError) {
        guard let folder = try storage.openDirectory(place) else { return false }
        parent = folder
      } catch { return false }
    }
    return false
  }

  /// Opens the folder of an object, and creates it when it is missing. The names of all folders on
  /// the way are durable then.
  private func makeFolder(
    of name: ObjectName, _ root: any StorageDirectory
  ) throws(ObjectStoreError) -> any StorageDirectory {
    var (place, parent) = (path, root)
    for part in name.parts.dropLast() {
      place.append(String(part))
      parent = try makeFolder(String(part), at: place, in: parent, for: name)
    }
    return parent
  }

  private func makeFolder(
    _ part: String, at place: FilePath, in parent: any StorageDirectory, for name: ObjectName
  ) throws(ObjectStoreError) -> any StorageDirectory {
    let isKnown = durableFolders.withLock { $0.contains(place.string) }
    if !isKnown, isFile(part, in: parent) {
      throw ObjectStoreError(
        .unsupported,
        "'\(place)' is an object; in a directory, no other object can be under it", object: name,
        mayHaveHadEffect: false)
    }
    return try attempt(name) { () throws(StorageError) in
      if isKnown, let folder = try storage.openDirectory(place) { return folder }
      // A folder that exists may have been created by a process that has died since. The call makes
      // its name durable.
      try storage.createDirectory(place)
      guard let folder = try storage.openDirectory(place) else {
        throw StorageError("open directory", file: place.string, errno: .noSuchFileOrDirectory)
      }
      durableFolders.withLock { _ = $0.insert(place.string) }
      return folder
    }
  }
}

/// Files of objects.
extension ObjectFiles {
  /// Opens the file of an object. Returns nil when no object has the name.
  private func openObject(
    _ name: ObjectName, in folder: any StorageDirectory
  ) throws(ObjectStoreError) -> (any StorageFile)? {
    do throws(StorageError) { return try folder.openFile(Self.lastPart(of: name), .read) } catch {
      if isFolder(place(of: name)) { return nil }
      throw Self.error(error, name, mayHaveHadEffect: false)
    }
  }

  private static func bytes(
    of file: any StorageFile, _ range: Range<Int>?
  ) throws(StorageError) -> [UInt8] {
    let length = Int(clamping: try file.lengthBytes())
    let range = (range ?? 0..<length).clamped(to: 0..<length)
    if range.isEmpty { return [] }
    // An initializer of an array forwards untyped errors only.
    var failure: StorageError?
    let bytes = [UInt8](unsafeUninitializedCapacity: range.count) { buffer, count in
      do throws(StorageError) {
        let target = UnsafeMutableRawBufferPointer(
          start: buffer.baseAddress, count: range.count)
        count = try file.read(into: target, at: UInt64(range.lowerBound))
      } catch { failure = error }
    }
    if let failure { throw failure }
    guard bytes.count == range.count else {
      throw StorageError("read to the end of", file: file.name, errno: .ioError)
    }
    return bytes
  }

  /// Makes the names in a folder durable, and checks that the root is still at its path.
  private func confirm(
    _ name: ObjectName, _ folder: any StorageDirectory, _ root: any StorageDirectory,
    mayHaveHadEffect: Bool
  ) throws(ObjectStoreError) {
    try sync(folder, name, mayHaveHadEffect: mayHaveHadEffect)
    try checkInPlace(root, name, mayHaveHadEffect: mayHaveHadEffect)
  }

  private func sync(
    _ folder: any StorageDirectory, _ name: ObjectName?, mayHaveHadEffect: Bool
  ) throws(ObjectStoreError) {
    try attempt(name, mayHaveHadEffect: mayHaveHadEffect) { () throws(StorageError) in
      try folder.synchronize()
    }
  }
}

/// Errors.
extension ObjectFiles {
  private func attempt<Answer>(
    _ name: ObjectName?, mayHaveHadEffect: Bool = false, _ body: () throws(StorageError) -> Answer
  ) throws(ObjectStoreError) -> Answer {
    do throws(StorageError) { return try body() } catch {
      throw Self.error(error, name, mayHaveHadEffect: mayHaveHadEffect)
    }
  }

  /// Runs the step that gives an object its name.
  private func naming<Answer>(
    _ name: ObjectName, _ body: () throws(StorageError) -> Answer
  ) throws(ObjectStoreError) -> Answer {
    do throws(StorageError) { return try body() } catch {
      throw Self.error(error, name, mayHaveHadEffect: !Self.isDefinite(error))
    }
  }

  /// Runs a step of a request of which earlier steps may have had their effect.
  private func reporting<Answer>(
    _ isChanged: Bool, _ body: () throws(ObjectStoreError) -> Answer
  ) throws(ObjectStoreError) -> Answer {
    do throws(ObjectStoreError) { return try body() } catch {
      throw ObjectStoreError(
        error.code, error.message, object: error.object,
        mayHaveHadEffect: error.mayHaveHadEffect || isChanged)
    }
  }

  /// Whether the file system has refused the call. After another error, of a device or of a
  /// network, the call may have had its effect, or may still have it.
  static func isDefinite(_ error: StorageError) -> Bool {
    switch error.errno {
    case .noSpace, .diskQuotaExceeded, .permissionDenied, .notPermitted, .readOnlyFileSystem,
      .noSuchFileOrDirectory, .notDirectory, .isDirectory, .fileExists, .fileNameTooLong,
      .tooManyLinks, .tooManyOpenFiles, .tooManyOpenFilesInSystem, .notSupported,
      .invalidArgument, .improperLink:
      true
    default: false
    }
  }

  static func error(
    _ error: StorageError, _ name: ObjectName?, mayHaveHadEffect: Bool
  ) -> ObjectStoreError {
    let code: ObjectStoreError.Code =
      switch error.errno {
      case .noSpace, .diskQuotaExceeded: .noSpace
      case .permissionDenied, .notPermitted, .readOnlyFileSystem: .denied
      // Repeating the request does not help.
      case .notSupported, .fileNameTooLong: .unsupported
      default: .unavailable
      }
    return ObjectStoreError(
      code, "\(error.operation) '\(error.file)': \(error.errno) (errno \(error.errno.rawValue))",
      object: name, mayHaveHadEffect: mayHaveHadEffect)
  }
}
