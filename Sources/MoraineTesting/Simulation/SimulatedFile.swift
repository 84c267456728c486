import MoraineStorage

final class SimulatedFile: StorageFile {
  private let base: any StorageFile
  private let content: SimulatedContent
  private let disk: SimulatedDisk

  init(_ base: any StorageFile, _ content: SimulatedContent, _ disk: SimulatedDisk) {
    self.base = base
    self.content = content
    self.disk = disk
  }

  var name: String { base.name }
  var identity: FileIdentity { base.identity }

  func lengthBytes() throws(StorageError) -> UInt64 { try base.lengthBytes() }

  func read(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int {
    try base.read(into: target, at: offset)
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(StorageError) {
    disk.willChange()
    try disk.makingSpace { () throws(StorageError) in try base.write(bytes, at: offset) }
    content.wasWritten(from: offset, count: bytes.count)
  }

  func allocate(from start: UInt64, to end: UInt64) throws(StorageError) {
    disk.willChange()
    try disk.makingSpace { () throws(StorageError) in try base.allocate(from: start, to: end) }
  }

  func truncate(to lengthBytes: UInt64) throws(StorageError) {
    disk.willChange()
    try base.truncate(to: lengthBytes)
    content.wasTruncated(to: lengthBytes)
  }

  func synchronize(_ scope: SyncScope) throws(StorageError) {
    // Before the call takes its time: what is written in the meantime is not covered.
    let begun = content.beginSync()
    disk.willChange()
    if !disk.omits(.file) { content.endSync(begun) }
  }

  func readMedium(
    into target: UnsafeMutableRawBufferPointer, at offset: UInt64
  ) throws(StorageError) -> Int? {
    let bytes = content.syncedBytes.dropFirst(Int(clamping: offset)).prefix(target.count)
    target.copyBytes(from: bytes)
    return bytes.count
  }

  func map(lengthBytes: Int, _ access: FileAccess) throws(StorageError) -> any FileMapping {
    try base.map(lengthBytes: lengthBytes, access)
  }

  /// A failed sync of the real disk may drop the pages that it should have written.
  func dropUnsynced() { content.dropUnsynced() }

  func unlock() { base.unlock() }

  func tryLock(shared: Bool) throws(StorageError) -> Bool { try base.tryLock(shared: shared) }
}
