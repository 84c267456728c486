import MoraineFormat
import MoraineStorage

/// Fetches the records of a walk before they are read: from memory to the processor's cache, and
/// from the disk to memory.
///
/// A walk over records in memory takes well below a microsecond for an entry, and a record that
/// comes from the disk takes dozens of microseconds. So a walk with slow entries announces the
/// records of the leaves that follow, and the system reads the records of one leaf at once. An
/// announcement of a record in memory takes about half a microsecond: faster walks announce none.
struct RecordsAhead {
  private static let longest = 24
  private var leaf = -1
  /// Number of entries of the leaf, from the walk's place on, whose records are on their way.
  private var fetched = 0
  /// Number of records to fetch ahead. It grows with each entry: a short walk should fetch few
  /// records that it does not read.
  private var distance = 6
  private var pace: ReadingPace
  /// Number of entries that the caller will still read at most.
  private var wanted: Int

  /// - Parameters:
  ///   - limit: number of entries that the caller reads at most.
  ///   - clock: returns nanoseconds.
  init(
    limit: Int = .max,
    clock: @escaping @Sendable () -> UInt64 = { SystemClock.monotonicNanoseconds() }
  ) {
    wanted = limit
    pace = ReadingPace(clock: clock)
  }

  /// Returns the address of the next entry's record.
  @inline(__always)
  mutating func next<Pages: TreePages & ~Copyable, Source: RecordSource & ~Copyable>(
    _ walk: inout RangeWalk, _ pages: borrowing Pages, _ source: borrowing Source
  ) throws(StoreError) -> Address? {
    guard let address = walk.next(pages) else { return nil }
    if walk.leaf != leaf {
      fetched = 0
      leaf = walk.leaf
      if pace.enterLeaf() { try announce(address, walk, pages, source) }
    } else if fetched > 0 {
      fetched &-= 1
    }
    if pace.pass() { try announce(address, walk, pages, source) }
    while fetched < distance, let ahead = walk.address(ahead: fetched, pages) {
      fetched &+= 1
      guard ahead.slot < source.count, let base = source.views[ahead.slot].base else { continue }
      // Most records are in three lines.
      CPU.prefetch(base + ahead.offset)
      CPU.prefetch(base + ahead.offset + 64)
      CPU.prefetch(base + ahead.offset + 128)
    }
    if distance < Self.longest { distance &+= 1 }
    wanted &-= 1
    return address
  }

  /// Announces a record, and the records of the entries after it in its leaf.
  @inline(never)
  private func announce<Pages: TreePages & ~Copyable, Source: RecordSource & ~Copyable>(
    _ first: Address, _ walk: RangeWalk, _ pages: borrowing Pages, _ source: borrowing Source
  ) throws(StoreError) {
    var addresses = [first]
    let count = min(wanted - 1, walk.remainingInLeaf(pages))
    for index in 0..<max(0, count) {
      guard let address = walk.address(ahead: index, pages) else { break }
      addresses.append(address)
    }
    for part in LogPart.covering(addresses) where part.slot < source.count {
      try source.announce(part)
    }
  }
}

/// Decides from the time that a walk takes whether its records come from the disk.
struct ReadingPace {
  /// Number of entries that a walk reads before it looks at the clock: short walks never do.
  static let unobserved = 16
  /// Number of entries between two looks at the clock.
  static let sample = 32
  /// Nanoseconds for an entry above which records come from the disk.
  static let slowNanoseconds: UInt64 = 10_000
  /// Announced records are read at the pace of memory, so the pace does not show for how long
  /// announcements are needed: they go on for this number of leaves.
  static let announcedLeaves = 16

  private let clock: @Sendable () -> UInt64
  /// Number of entries until the next look at the clock.
  private var left = unobserved
  private var began: UInt64?
  private var leavesToAnnounce = 0

  /// - Parameter clock: returns nanoseconds.
  init(clock: @escaping @Sendable () -> UInt64) {
    self.clock = clock
  }

  /// Begins a leaf.
  ///
  /// - Returns: whether the records of the leaf are to be announced.
  @inline(__always)
  mutating func enterLeaf() -> Bool { leavesToAnnounce > 0 && enterAnnouncedLeaf() }

  private mutating func enterAnnouncedLeaf() -> Bool {
    leavesToAnnounce -= 1
    if leavesToAnnounce > 0 { return true }
    observe()
    return false
  }

  /// Counts an entry.
  ///
  /// - Returns: whether the records of the rest of the leaf are to be announced.
  @inline(__always)
  mutating func pass() -> Bool {
    left &-= 1
    return left == 0 && isSlow()
  }

  private mutating func isSlow() -> Bool {
    guard let began, clock() &- began > Self.slowNanoseconds * UInt64(Self.sample) else {
      observe()
      return false
    }
    (leavesToAnnounce, left) = (Self.announcedLeaves + 1, .max)
    return true
  }

  private mutating func observe() { (left, began) = (Self.sample, clock()) }
}

/// A part of the log in one segment.
struct LogPart: Equatable {
  /// Two records with a gap of at most this length are announced together.
  static let gapBytes = 16 << 10
  /// The length of a record is not known before the record is read: most are not longer.
  static let recordBytes = 1 << 10

  let slot: Int
  let start: Int
  private(set) var end: Int

  /// Returns the parts that contain the records at these addresses.
  static func covering(_ addresses: [Address]) -> [LogPart] {
    var parts: [LogPart] = []
    let sorted = addresses.sorted { ($0.slot, $0.offset) < ($1.slot, $1.offset) }
    for address in sorted {
      let end = address.offset + recordBytes
      if let last = parts.last, last.slot == address.slot, address.offset <= last.end + gapBytes {
        parts[parts.count - 1].end = end
      } else {
        parts.append(LogPart(slot: address.slot, start: address.offset, end: end))
      }
    }
    return parts
  }
}
