import MoraineStorage
import SystemPackage

/// A walk through the folders of a ``DirectoryObjectStore``, in the order of the names' bytes.
extension ObjectFiles {
  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) throws(ObjectStoreError) -> [ObjectName] {
    precondition(limit >= 0, "the limit of a list is negative")
    let root = try openRoot(nil)
    var list = Listing(last: last, limit: limit)
    let start = prefix.text.isEmpty ? path : place(of: prefix)
    do throws(StorageError) {
      // Nothing is under an object.
      do throws(StorageError) { _ = try storage.openDirectory(start) } catch {
        if error.errno == .notDirectory { return [] }
        throw error
      }
      try add(prefix, at: start, to: &list)
    } catch {
      throw Self.error(error, prefix, mayHaveHadEffect: false)
    }
    try checkInPlace(root, nil, mayHaveHadEffect: false)
    return list.names
  }

  private struct Listing {
    let last: ObjectName?
    let limit: Int
    var names: [ObjectName] = []

    var isFull: Bool { names.count >= limit }

    /// Whether a folder may contain names after the last one.
    func needs(_ folder: ObjectName) -> Bool {
      guard let last else { return true }
      let start = folder.text + "/"
      return last.text.hasPrefix(start)
        || last.text.utf8.lexicographicallyPrecedes(start.utf8)
    }
  }

  /// Adds the names in a folder. Files that are no objects, and links, are skipped.
  ///
  /// Recursive: the length of names limits the depth.
  private func add(
    _ folder: ObjectName, at place: FilePath, to list: inout Listing
  ) throws(StorageError) {
    guard !list.isFull, let directory = try storage.openDirectory(place) else { return }
    // A folder is sorted by the beginning of the names in it, with the separator: `a-b` precedes
    // `a/b`.
    var found: [(key: String, name: ObjectName, isFolder: Bool)] = []
    for entry in try directory.entries() {
      if TemporaryFile.isName(entry.name) {
        TemporaryFile.removeIfAbandoned(entry.name, in: directory)
      }
      guard entry.kind == .regular || entry.kind == .directory,
        let name = Self.name(entry.name, in: folder)
      else { continue }
      let isFolder = entry.kind == .directory
      found.append((isFolder ? name.text + "/" : name.text, name, isFolder))
    }
    found.sort { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
    for (_, name, isFolder) in found where !list.isFull {
      if isFolder {
        if list.needs(name) { try add(name, at: self.place(of: name), to: &list) }
      } else if list.last.map({ $0 < name }) ?? true {
        list.names.append(name)
      }
    }
  }

  /// The name of an entry of a folder; nil when no object can have it.
  private static func name(_ entry: String, in folder: ObjectName) -> ObjectName? {
    do throws(ArchiveError) {
      return try ObjectName(folder.text.isEmpty ? entry : folder.text + "/" + entry)
    } catch { return nil }
  }
}
