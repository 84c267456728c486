import Synchronization

/// A word of ``RecentRecords``.
enum RecentWord: Hashable {
  /// The hash of a key; 0 for a free place.
  case hash(Int)
  /// The address of the key's last record.
  case address(Int)
  /// A bit for each hash that was added; most other hashes have another bit.
  case filter(Int)
  /// Odd while the records of a batch are being added.
  case version
}

/// The protocol by which one thread adds records that other threads find, without a lock.
///
/// A place gets a hash once, after its address, and keeps the hash. So a reader that acquires the
/// hash finds an address of that hash: the first one, or a later one. The bytes of the record were
/// written before the address was stored, with releasing order.
///
/// The records of a batch are added between an odd and an even version: a sequence lock. A reader
/// that sees the same even version before and after its look-up has seen no part of a batch, or all
/// of it. (Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012.)
extension WordMemory where Place == RecentWord {
  /// Returns the place of a hash; for a new hash, the free place that it gets.
  @inline(__always)
  func place(of hash: UInt64, mask: Int) throws(Stop) -> (place: Int, isFree: Bool) {
    var place = Int(truncatingIfNeeded: hash) & mask
    while true {
      let known = try load(acquiring: .hash(place))
      if known == hash { return (place, false) }
      if known == 0 { return (place, true) }
      place = (place &+ 1) & mask
    }
  }

  /// Adds a record with a hash that has a place, or at a free place.
  @inline(__always)
  func set(
    _ address: UInt64, of hash: UInt64, at place: Int, isFree: Bool, mask: Int
  ) throws(Stop) {
    try store(address, releasing: .address(place))
    guard isFree else { return }
    try store(hash, releasing: .hash(place))
    let word = RecentWord.filter(Self.filterWord(of: hash, mask))
    try store(load(relaxed: word) | Self.filterBit(of: hash), releasing: word)
  }

  /// Returns false for a hash that was not added when this look-up began. The filter is small: most
  /// look-ups of other keys read no other memory.
  @inline(__always)
  func mayHave(_ hash: UInt64, mask: Int) throws(Stop) -> Bool {
    let word = try load(acquiring: .filter(Self.filterWord(of: hash, mask)))
    return word & Self.filterBit(of: hash) != 0
  }

  /// A filter has eight bits for each place.
  @inline(__always)
  private static func filterWord(of hash: UInt64, _ mask: Int) -> Int {
    Int(truncatingIfNeeded: hash &>> 38) & (mask &>> 3)
  }

  @inline(__always)
  private static func filterBit(of hash: UInt64) -> UInt64 { 1 &<< (hash &>> 32 & 63) }

  /// Makes the version odd. Relaxed: a reader that finds a record of the batch has acquired its
  /// address, which is stored after the version with releasing order.
  func beginBatch() throws(Stop) {
    try store(load(relaxed: .version) | 1, relaxed: .version)
  }

  func endBatch() throws(Stop) {
    try store((load(relaxed: .version) | 1) &+ 1, releasing: .version)
  }

  /// Returns the version before a look-up. No look-up succeeds while it is odd.
  @inline(__always)
  func beginLookUp() throws(Stop) -> UInt64 { try load(acquiring: .version) }

  /// Returns whether a look-up has seen all of each batch, or nothing of it. Relaxed: every load of
  /// the look-up was acquiring, so this load comes after them.
  @inline(__always)
  func endLookUp(_ version: UInt64) throws(Stop) -> Bool {
    let last = try load(relaxed: .version)
    return version & 1 == 0 && last == version
  }
}

/// The records that were written since an index was frozen, by the hashes of their keys: the last
/// record of each key, which may be a delete.
///
/// Safety of `@unchecked Sendable`: every word is atomic, and `count` belongs to the one thread
/// that adds records.
final class RecentRecords: @unchecked Sendable, WordMemory {
  typealias Place = RecentWord
  typealias Stop = Never

  private let words: UnsafeMutablePointer<Atomic<UInt64>>
  private let filter: UnsafeMutablePointer<Atomic<UInt64>>
  private let versionWord = Atomic<UInt64>(0)
  /// End of the last record that was added; for segments that are not mapped.
  let end: Atomic<Int>
  private let mask: Int
  /// The most hashes: half of the places.
  let limit: Int
  private(set) var count = 0

  /// - Parameter limit: the least number of keys for which there must be room.
  init(limit: Int, end: Int) {
    var places = 16
    while places < 2 * limit { places *= 2 }
    self.limit = places / 2
    self.end = Atomic(end)
    mask = places - 1
    words = .allocate(capacity: 2 * places)
    for index in 0..<2 * places { (words + index).initialize(to: Atomic(0)) }
    filter = .allocate(capacity: places / 8)
    for index in 0..<places / 8 { (filter + index).initialize(to: Atomic(0)) }
  }

  deinit {
    words.deinitialize(count: 2 * (mask + 1))
    words.deallocate()
    filter.deinitialize(count: (mask + 1) / 8)
    filter.deallocate()
  }

  @inline(__always)
  private func word(_ place: RecentWord) -> UnsafeMutablePointer<Atomic<UInt64>> {
    switch place {
    case .hash(let index): words + 2 &* index
    case .address(let index): words + (2 &* index &+ 1)
    case .filter(let index): filter + index
    case .version: fatalError("the version lies elsewhere")
    }
  }

  @inline(__always)
  func load(relaxed place: RecentWord) -> UInt64 {
    if case .version = place { return versionWord.load(ordering: .relaxed) }
    return word(place).pointee.load(ordering: .relaxed)
  }

  @inline(__always)
  func load(acquiring place: RecentWord) -> UInt64 {
    if case .version = place { return versionWord.load(ordering: .acquiring) }
    return word(place).pointee.load(ordering: .acquiring)
  }

  @inline(__always)
  func store(_ value: UInt64, relaxed place: RecentWord) {
    if case .version = place { return versionWord.store(value, ordering: .relaxed) }
    word(place).pointee.store(value, ordering: .relaxed)
  }

  @inline(__always)
  func store(_ value: UInt64, releasing place: RecentWord) {
    if case .version = place { return versionWord.store(value, ordering: .releasing) }
    word(place).pointee.store(value, ordering: .releasing)
  }

  /// Hash 0 marks a free place. Two keys with the same hash are distinguished by their records.
  @inline(__always)
  private static func known(_ hash: UInt64) -> UInt64 { hash == 0 ? 1 : hash }

  /// Returns the address of the last record of a key with a hash; nil when none was added.
  @inline(__always)
  func address(of hash: UInt64) -> Address? {
    guard mayHave(Self.known(hash), mask: mask) else { return nil }
    let found = place(of: Self.known(hash), mask: mask)
    // Acquires what the writer stored before it: the bytes of the record.
    return found.isFree ? nil : Address(rawValue: load(acquiring: .address(found.place)))
  }

  /// Adds a record, instead of the one that its key has here.
  ///
  /// - Parameter isSameKey: whether the record at an address has the same key.
  /// - Returns: false when there is no room, or another key has the same hash.
  func add(_ hash: UInt64, _ address: Address, _ isSameKey: (Address) -> Bool) -> Bool {
    let hash = Self.known(hash)
    let found = place(of: hash, mask: mask)
    if found.isFree {
      guard count < limit else { return false }
      count += 1
    } else {
      let known = Address(rawValue: load(relaxed: .address(found.place)))
      guard isSameKey(known) else { return false }
    }
    set(address.rawValue, of: hash, at: found.place, isFree: found.isFree, mask: mask)
    return true
  }
}
