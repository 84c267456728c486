import MoraineStorage
import SystemPackage

final class SimulatedDirectory: StorageDirectory {
  private let base: any StorageDirectory
  private let names: SimulatedNames
  private let disk: SimulatedDisk

  init(_ base: any StorageDirectory, _ names: SimulatedNames, _ disk: SimulatedDisk) {
    self.base = base
    self.names = names
    self.disk = disk
  }

  var path: FilePath { base.path }

  func entries() throws(StorageError) -> [DirectoryEntry] { try base.entries() }

  func createFile(_ name: String) throws(StorageError) -> any StorageFile {
    disk.willChange()
    let file = try base.createFile(name)
    // Each opening has a handle of its own, because a lock ends with the last handle of its holder.
    let content = SimulatedContent(try base.openFile(name, .read) ?? file)
    names.add(name, content)
    return SimulatedFile(file, content, disk)
  }

  func openFile(_ name: String, _ access: FileAccess) throws(StorageError) -> (any StorageFile)? {
    guard let file = try base.openFile(name, access), let content = names.content(name) else {
      return nil
    }
    return SimulatedFile(file, content, disk)
  }

  func rename(_ source: String, to target: String) throws(StorageError) {
    disk.willChange()
    try base.rename(source, to: target)
    names.rename(source, to: target)
  }

  /// Makes two changes, as a real disk with hard links does: the file gets the new name, and then
  /// loses the old one.
  func renameIfAbsent(_ source: String, to target: String) throws(StorageError) -> Bool {
    disk.willChange()
    let isRenamed = try names.link(source, as: target) { () throws(StorageError) in
      try base.renameIfAbsent(source, to: target)
    }
    guard isRenamed else { return false }
    disk.willChange()
    names.remove(source)
    return true
  }

  func remove(_ name: String) throws(StorageError) {
    disk.willChange()
    try base.remove(name)
    names.remove(name)
  }

  func share(
    _ name: String, into target: any StorageDirectory, as newName: String, linking: Bool
  ) throws(StorageError) -> Bool {
    guard let target = target as? SimulatedDirectory, let content = names.content(name) else {
      return false
    }
    disk.willChange()
    guard try base.share(name, into: target.base, as: newName, linking: linking) else {
      return false
    }
    target.names.add(newName, content)
    return true
  }

  func synchronize() throws(StorageError) {
    // Before the call takes its time: names that change in the meantime are not covered.
    let begun = names.beginSync()
    disk.willChange()
    if !disk.omits(.directory) { names.endSync(begun) }
  }

  func synchronizeParent() throws(StorageError) {
    disk.willChange()
    if !disk.omits(.parent) { names.synchronizeName() }
  }

  func freeBytes() throws(StorageError) -> UInt64 { try base.freeBytes() }
  func creationBytes() throws(StorageError) -> UInt64 { try base.creationBytes() }

  func watchFile(
    _ name: String, _ body: @escaping @Sendable () -> Void
  ) throws(StorageError) -> (any DirectoryWatch)? {
    try base.watchFile(name, body)
  }

  func isInPlace() throws(StorageError) -> Bool { try base.isInPlace() }
  func extent(of name: String) throws(StorageError) -> FileExtent? {
    try base.extent(of: name)
  }

  func stamp(of name: String) throws(StorageError) -> FileStamp? { try base.stamp(of: name) }
  func tryLock(shared: Bool) throws(StorageError) -> Bool { try base.tryLock(shared: shared) }
  func unlock() { base.unlock() }
}
