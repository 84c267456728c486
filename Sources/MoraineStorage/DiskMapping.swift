import CMoraineShims

/// A mapping of a file of the real disk.
///
/// Safety of `@unchecked Sendable`: the properties never change. The engine controls which thread
/// accesses which bytes, as for any memory.
final class DiskMapping: FileMapping, @unchecked Sendable {
  let base: UnsafeMutableRawPointer
  let lengthBytes: Int

  init(base: UnsafeMutableRawPointer, lengthBytes: Int) {
    self.base = base
    self.lengthBytes = lengthBytes
  }

  deinit { moraine_unmap(base, lengthBytes) }

  func finishWriting(to end: Int) {
    let length = min(CPU.pagesCovering(end), lengthBytes)
    if length > 0 { moraine_unload(base, length) }
  }

  func announceRead(from start: Int, to end: Int) {
    let first = start & ~(CPU.pageBytes - 1)
    let last = min(end, lengthBytes)
    guard last > first else { return }
    moraine_announce_mapped(base + first, last - first)
  }

  func prefault(from start: Int, to end: Int) {
    let first = start & ~(CPU.pageBytes - 1)
    guard end > first else { return }
    moraine_prefault(base + first, end - first)
  }

  func prefaultForReading(to end: Int) {
    moraine_prefault_for_reading(base, min(end, lengthBytes))
  }
}
