import CMoraineShims
import SystemPackage

/// An open file, with its locks and its unreported errors, that only an inaccessible mapping keeps.
///
/// The kernel closes the file when the process ends for any reason. A forked child does not inherit
/// the mapping.
///
/// Safety of `@unchecked Sendable`: the properties never change, and no thread reads the memory.
/// The owner releases it once.
struct KeptFile: @unchecked Sendable {
  private let base: UnsafeMutableRawPointer
  private let lengthBytes: Int
  private let forkGeneration = CurrentProcess.forkGeneration

  /// - Parameter lengthBytes: the length of the file's beginning that ``synchronize(_:)`` writes.
  /// - Returns: nil where the system or the file system has no such mapping.
  init?(_ descriptor: CInt, lengthBytes: Int) {
    let length = max(1, lengthBytes)
    guard let base = moraine_keep(descriptor, length) else { return nil }
    self.base = base
    self.lengthBytes = length
  }

  func covers(_ length: Int) -> Bool { length <= lengthBytes }

  /// Makes the file's bytes durable, as `fdatasync` of this open file.
  func synchronize(_ name: String) throws(StorageError) {
    _ = try SystemCall.retrying("sync", name) { moraine_sync_mapping(base, lengthBytes) }
  }

  /// Removes the mapping, except in a forked child, where other memory may lie at that address.
  func release() {
    if forkGeneration == CurrentProcess.forkGeneration { moraine_unmap(base, lengthBytes) }
  }
}
