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
  /// The entries of the reached leaf that were not returned yet. The walk has passed them.
  private var leaf = LeafEntries()
  /// How many of them, from the first one on, have records that are on their way.
  private var fetched = 0
  /// Number of records to fetch ahead. It grows with each entry: a short walk should fetch few
  /// records that it does not read.
  private var distance = 6
  /// The length that the next records are expected to have, in bytes: that of the last one.
  private var expectedLength = 0
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

  /// Returns the address of the next entry's record; nil at the end of the range.
  ///
  /// No page of the tree changes between two calls.
  @inline(__always)
  mutating func next<Pages: TreePages & ~Copyable, Source: RecordSource & ~Copyable>(
    _ walk: inout RangeWalk, _ pages: borrowing Pages, _ source: borrowing Source
  ) throws(StoreError) -> Address? {
    if leaf.count == 0, try !enterLeaf(&walk, pages, source) { return nil }
    if pace.pass() { try announce(source) }
    let address = leaf.removeFirst()
    if fetched > 0 { fetched &-= 1 }
    let target = min(distance, leaf.count)
    while fetched < target {
      source.prefetch(leaf[fetched], length: expectedLength)
      fetched &+= 1
    }
    if distance < Self.longest { distance &+= 1 }
    wanted &-= 1
    return address
  }

  /// Notes the length of the record that was read last: the next ones are fetched as far.
  @inline(__always)
  mutating func note(_ record: RecordReference) { expectedLength = record.header.length }

  /// Returns whether the range has another entry.
  func hasNext<Pages: TreePages & ~Copyable>(
    _ walk: inout RangeWalk, _ pages: borrowing Pages
  ) -> Bool {
    leaf.count > 0 || walk.hasNext(pages)
  }

  /// - Returns: false at the end of the range.
  @inline(never)
  private mutating func enterLeaf<Pages: TreePages & ~Copyable, Source: RecordSource & ~Copyable>(
    _ walk: inout RangeWalk, _ pages: borrowing Pages, _ source: borrowing Source
  ) throws(StoreError) -> Bool {
    guard let next = walk.nextLeaf(pages) else { return false }
    leaf = next
    fetched = 0
    if pace.enterLeaf() { try announce(source) }
    return true
  }

  /// Announces the records of the entries of the leaf that were not returned yet.
  @inline(never)
  private func announce<Source: RecordSource & ~Copyable>(
    _ source: borrowing Source
  ) throws(StoreError) {
    let addresses = (0..<max(0, min(wanted, leaf.count))).map { leaf[$0] }
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
