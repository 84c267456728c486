public import CMoraineShims
import SystemPackage

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// The processor and its pages of memory.
///
/// Three functions are public, so that the engine inlines them: see `RecordHeader`.
public enum CPU {
  /// Fetches a cache line ahead of use. A hint.
  @inlinable @inline(__always)
  public static func prefetch(_ place: UnsafeRawPointer) { moraine_prefetch(place) }

  /// Returns which of eight slots have a tag in their uppermost 16 bits: bit 0 of byte k is set for
  /// slot k.
  @inlinable @inline(__always)
  public static func slots(in bucket: UnsafePointer<UInt64>, tagged tag: UInt16) -> UInt64 {
    moraine_tag_matches(bucket, tag)
  }

  /// A number that differs between most threads that run at the same time.
  @inlinable @inline(__always)
  public static var threadNumber: Int { Int(moraine_thread_number()) }

  /// Lets another thread run.
  package static func yieldThread() { _ = sched_yield() }

  /// Lowers the priority of the calling thread. A hint.
  package static func lowerThreadPriority() { moraine_lower_thread_priority() }

  /// The size of a page of memory, in bytes: a power of two.
  package static let pageBytes = Int(sysconf(Int32(_SC_PAGESIZE)))

  /// Releases the memory of whole pages of a private mapping that no thread reads or writes any
  /// more: the content of the pages is lost. A hint.
  package static func discard(_ base: UnsafeMutableRawPointer, byteCount: Int) {
    let first = base.alignedUp(toMultipleOf: pageBytes)
    let end = (base + byteCount).alignedDown(toMultipleOf: pageBytes)
    if end > first { moraine_unload(first, end - first) }
  }

  /// Returns a length rounded up to whole pages.
  package static func pagesCovering(_ length: Int) -> Int {
    (length + pageBytes - 1) & ~(pageBytes - 1)
  }
}

/// Zeroed memory that costs nothing until it is accessed.
///
/// The memory is aligned to a page. The owner calls ``deallocate()``.
package struct ZeroedMemory: @unchecked Sendable {
  package let base: UnsafeMutableRawPointer
  private let byteCount: Int

  /// - Parameters:
  ///   - purpose: the file or the part of the store that needs the memory, for the error.
  ///   - isHuge: asks for huge pages; the size is then a multiple of 2 MiB. Random accesses to huge
  ///     pages miss the processor's address cache less often.
  /// - Throws: `ENOMEM`, also when the process has as many mappings as the system allows.
  package init(for purpose: String, byteCount: Int, isHuge: Bool = false) throws(StorageError) {
    guard let base = moraine_zeroed(byteCount, isHuge) else {
      throw StorageError(
        "allocate \(byteCount) bytes of memory for", file: purpose, errno: .noMemory)
    }
    self.base = base
    self.byteCount = byteCount
  }

  /// Makes a part of the memory present, so that the first write to a page is no page fault. A
  /// hint.
  package func prefault(_ place: UnsafeMutableRawPointer, _ byteCount: Int) {
    assert(
      place >= base && place + byteCount <= base + self.byteCount,
      "memory of another owner is made present")
    moraine_prefault(place, byteCount)
  }

  package func deallocate() { moraine_unmap(base, byteCount) }
}
