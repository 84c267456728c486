import MoraineStorage

/// Memory for copies of index pages. Pages are taken one by one. A slab is returned to the system
/// as soon as none of its pages is in use, but for one slab, and for pages that were taken ahead.
struct PageCopies {
  typealias Page = UnsafeMutablePointer<UInt64>
  /// A function that takes a slab's memory from the system.
  typealias Source = @Sendable () throws(StorageError) -> ZeroedMemory

  private struct Slab {
    let memory: ZeroedMemory
    let base: UnsafeMutableRawPointer
    /// A bit for each page that is free.
    var free = UInt64.max
    /// Whether the slab is among the candidates.
    var isListed = true
  }

  /// 256 KiB. A slab begins at a multiple of that, so that the address of a page gives its slab.
  private static let slabBytes = slabPages * BucketArray.pageBytes
  static let slabPages = 64
  /// The slabs by their addresses.
  private var slabs: [UInt: Slab] = [:]
  /// Addresses of slabs with free pages, each once. Some of these slabs may be full by now.
  private var candidates: [UInt] = []
  private var emptyCount = 0
  /// Number of pages in use.
  private(set) var count = 0
  /// Number of pages that were taken ahead and not used since.
  private var secured = 0
  let source: Source

  /// - Parameter source: the source of memory; tests replace it.
  init(source: @escaping Source = PageCopies.systemSlab) { self.source = source }

  static let systemSlab: Source = { () throws(StorageError) in
    try ZeroedMemory(for: "the index", byteCount: 2 * PageCopies.slabBytes)
  }

  var slabCount: Int { slabs.count }

  /// Number of entries in the list of slabs with free pages; for tests.
  var candidateCount: Int { candidates.count }

  var freeCount: Int { slabs.count * Self.slabPages - count }

  /// Returns where the pages of a slab begin.
  private static func firstPage(of memory: ZeroedMemory) -> UnsafeMutableRawPointer {
    memory.base.alignedUp(toMultipleOf: slabBytes)
  }

  /// Makes the pages of a slab present: the first write to each is no page fault then. A hint.
  static func prefault(_ memory: ZeroedMemory) {
    memory.prefault(firstPage(of: memory), slabBytes)
  }

  /// Takes memory until this number of pages is free. They stay free until they are taken, or until
  /// the next call, or ``returnEmptySlabs()``.
  ///
  /// - Throws: `ENOMEM`.
  mutating func secure(_ pageCount: Int) throws(StorageError) {
    assert(count <= slabs.count * Self.slabPages, "more pages are in use than exist")
    while freeCount < pageCount { try makeSlab() }
    secured = pageCount
  }

  /// Takes a free page, and more memory where there is none. The bytes of the page are undefined.
  mutating func take() -> Page {
    while true {
      while let key = candidates.last {
        if let page = takePage(of: key) { return page }
        slabs[key]?.isListed = false
        candidates.removeLast()
      }
      do throws(StorageError) { try makeSlab() } catch {
        fatalError("secure() reserved no memory for the copy of a page: \(error)")
      }
    }
  }

  private mutating func takePage(of key: UInt) -> Page? {
    guard var slab = slabs[key], slab.free != 0 else { return nil }
    assert(slab.free != .max || emptyCount > 0, "fewer than zero slabs are empty")
    if slab.free == .max { emptyCount -= 1 }
    let number = slab.free.trailingZeroBitCount
    slab.free &= slab.free - 1
    slabs[key] = slab
    count += 1
    if secured > 0 { secured -= 1 }
    return (slab.base + number * BucketArray.pageBytes).assumingMemoryBound(to: UInt64.self)
  }

  private mutating func makeSlab() throws(StorageError) { add(try source()) }

  /// Adds memory that the source has returned.
  mutating func add(_ memory: ZeroedMemory) {
    let base = Self.firstPage(of: memory)
    let key = UInt(bitPattern: base)
    assert(slabs[key] == nil, "two slabs have the same address")
    slabs[key] = Slab(memory: memory, base: base)
    candidates.append(key)
    emptyCount += 1
  }

  /// Frees a page that has no reader any more.
  mutating func free(_ page: Page) {
    let place = UInt(bitPattern: page)
    let key = place & ~UInt(Self.slabBytes - 1)
    guard var slab = slabs[key] else { fatalError("a page that is no copy was released") }
    let bit: UInt64 = 1 << UInt64((place - key) / UInt(BucketArray.pageBytes))
    precondition(slab.free & bit == 0, "a copy of a page was released twice")
    assert(count > 0, "fewer than zero pages are in use")
    if !slab.isListed {
      slab.isListed = true
      candidates.append(key)
    }
    slab.free |= bit
    slabs[key] = slab
    count -= 1
    guard slab.free == .max else { return }
    emptyCount += 1
    // A change that has begun may need the pages that were taken ahead.
    guard emptyCount > 1, freeCount - Self.slabPages >= secured else { return }
    emptyCount -= 1
    slabs[key] = nil
    // The system may use the address again, so a key that stays would be a second one.
    if let place = candidates.lastIndex(of: key) { candidates.remove(at: place) }
    slab.memory.deallocate()
  }

  /// Returns all slabs without a page in use, but for one. No snapshot is alive, so no change needs
  /// a copy.
  mutating func returnEmptySlabs() {
    secured = 0
    guard emptyCount > 1 else { return }
    for (key, slab) in slabs where slab.free == .max && emptyCount > 1 {
      slabs[key] = nil
      slab.memory.deallocate()
      emptyCount -= 1
    }
    candidates.removeAll { [slabs] in slabs[$0] == nil }
    assert(emptyCount == 1, "the number of empty slabs is wrong")
  }

  mutating func deallocate() {
    for slab in slabs.values { slab.memory.deallocate() }
    slabs = [:]
  }
}
