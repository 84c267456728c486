import CMoraineShims
import SystemPackage

/// An open file that only an inaccessible mapping keeps, with its locks and its unreported errors.
///
/// The kernel frees it when the process ends, however that happens. A forked child does not get it.
///
/// Safety of `@unchecked Sendable`: the properties never change, and nothing reads the memory. The
/// owner releases it once.
struct KeptFile: @unchecked Sendable {
  private let base: UnsafeMutableRawPointer
  private let lengthBytes: Int
  private let forkGeneration = CurrentProcess.forkGeneration

  /// - Parameter lengthBytes: how much of the file ``synchronize(_:)`` writes.
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

  /// In a forked child something else may lie there.
  func release() {
    if forkGeneration == CurrentProcess.forkGeneration { moraine_unmap(base, lengthBytes) }
  }
}
