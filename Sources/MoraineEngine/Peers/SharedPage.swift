import MoraineFormat
import MoraineStorage
import Synchronization

/// Page of memory that the processes of a shared store have in common. It says how far the log
/// reaches that all may read.
///
/// The page is no part of the store. The first process creates it again, and after a crash of the
/// machine nothing in it is trusted. The log is authoritative. Between processes that live, the
/// page is valid: a kill leaves it as it was, and the word `leaseHolder` shows that a writer died
/// while it had the writer's lock.
///
/// Safety of `@unchecked Sendable`: every word is atomic. Only the holder of the writer's lock
/// writes the words that belong together, between an odd and an even `version` (a sequence lock:
/// Lameter 2005, "Effective Synchronization on Linux/NUMA Systems"). The bytes of the log that
/// these words describe were written before, so a process that acquires the version sees the bytes.
///
/// ``SharedWords`` explains what the processes communicate through the words, and why it is right.
final class SharedPage: @unchecked Sendable {
  static let lengthBytes = 4096
  /// Where bytes are written to wake the processes that watch the file.
  static let bellOffset: UInt64 = 4088
  private static let magic: UInt64 = 0x3152_4853_4E49_4152

  enum Word: Int {
    case magic, nonce, version
    case generation, tailSegment, tailEnd, tailLimit, lastSequence
    case leaseHolder, nextSegment, poison, watchers
    /// Inodes of the lock files; 0 where version 0.1.0 made the page.
    case writerInode, compactorInode
    static let pins = 16
  }

  /// The reach of the log, as one publication describes it.
  struct Publication: Equatable {
    var nonce: UInt64 = 0
    var version: UInt64 = 0
    /// Generation of the manifest.
    var generation: UInt64 = 0
    /// Number of the last segment; 0 for none.
    var tailSegment: UInt64 = 0
    /// End of the last whole unit in the last segment.
    var tailEnd = 0
    /// The end at which the last segment is full; 0 when nothing more is to be appended to it.
    var tailLimit = 0
    var lastSequence: UInt64 = 0
    /// Whether every whole unit counts, also after `tailEnd`. The page does not store this flag. It
    /// is true for a process that has the lock of a writer that died while it published.
    var takesAllUnits = false

    /// Whether a log can reach that far. The words have no checksum: a number that no log has means
    /// that a writer died while it wrote the page.
    var isPlausible: Bool {
      let longest = Int(clamping: StoreLimits.segmentLengthBytes)
      return tailEnd <= longest && tailLimit <= longest && generation <= StoreLimits.manifestCounter
        && lastSequence <= SequenceNumber.max.rawValue
    }
  }

  private let mapping: any FileMapping
  /// Whether this process may write to the page's file; a reader may lack the permission.
  let isWritable: Bool
  private let words: UnsafeMutablePointer<Atomic<UInt64>>

  init(_ mapping: any FileMapping, isWritable: Bool) {
    self.mapping = mapping
    self.isWritable = isWritable
    precondition(mapping.lengthBytes >= Self.lengthBytes, "a mapping does not contain the page")
    assert(UInt(bitPattern: mapping.base) % 8 == 0, "the words of the page are not aligned")
    words = mapping.base.assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  var base: UnsafeRawPointer { UnsafeRawPointer(mapping.base) }

  /// Returns the version of the page at an address.
  @inline(__always)
  static func version(at base: UnsafeRawPointer) -> UInt64 {
    let words = base.assumingMemoryBound(to: Atomic<UInt64>.self)
    return words[Word.version.rawValue].load(ordering: .acquiring)
  }

  @inline(__always)
  func load(_ word: Word) -> UInt64 { words[word.rawValue].load(ordering: .acquiring) }

  func store(_ value: UInt64, _ word: Word) {
    assert(isWritable, "a process without the permission writes to the page")
    words[word.rawValue].store(value, ordering: .releasing)
  }

  /// Adds to a word. A process that begins to watch adds 1; one that stops adds the maximum.
  func add(_ value: UInt64, to word: Word) { add(value, to: word.rawValue) }

  /// Returns a number that no segment of this store has had.
  ///
  /// Relaxed: only the number itself is used. No two callers get the same number, because each
  /// exchange reads the last value. The file that gets the number is created exclusively.
  ///
  /// - Parameter least: the least number that the caller may get, by what it knows.
  func takeSegmentNumber(_ least: UInt64) -> UInt64 {
    assert(isWritable, "a process without the permission takes a segment number")
    let place = words + Word.nextSegment.rawValue
    var known = place.pointee.load(ordering: .relaxed)
    while true {
      let number = max(known, least)
      let (exchanged, original) = place.pointee.compareExchange(
        expected: known, desired: number &+ 1, ordering: .relaxed)
      if exchanged { return number }
      known = original
    }
  }

  var isMade: Bool { load(.magic) == Self.magic }

  /// The last sequence number that a writer has used, even if the writer died while it published:
  /// the word has its old value or its new one. No other place records a number that a failed
  /// operation used up.
  var lastUsedSequence: UInt64 {
    let last = load(.lastSequence)
    return last <= SequenceNumber.max.rawValue ? last : 0
  }

  /// The whole log, for a process that has the lock of a dead writer: every whole unit counts, also
  /// those that the dead writer was publishing.
  var wholeLog: Publication {
    Publication(
      nonce: load(.nonce), version: load(.version), lastSequence: lastUsedSequence,
      takesAllUnits: true)
  }

  /// Begins a new page. Only the caller writes to it, but a reader may have had it mapped before.
  /// So the version continues: a reader that meets a version again would take the page for
  /// unchanged.
  ///
  /// - Parameter inodes: the inodes of the lock files, by their words.
  func make(
    _ first: Publication, nextSegment: UInt64, nonce: UInt64, inodes: [Word: UInt64] = [:]
  ) {
    precondition(isWritable, "a process without the permission makes the page")
    // Odd while the page is being made, and never the version of a publication that a reader saw.
    let version = load(.version) | 1
    words[Word.version.rawValue].store(version, ordering: .relaxed)
    atomicMemoryFence(ordering: .releasing)
    // The count of watchers stays. It contains readers, and processes that were killed: for these
    // the bell rings in vain.
    let kept = [Word.version.rawValue, Word.watchers.rawValue]
    for index in 0..<Self.lengthBytes / 8 where !kept.contains(index) {
      words[index].store(0, ordering: .relaxed)
    }
    for (word, inode) in inodes { store(inode, word) }
    store(nonce, .nonce)
    store(nextSegment, .nextSegment)
    publish(first)
    store(Self.magic, .magic)
  }

}

extension SharedPage: SharedWords {
  @inline(__always)
  func load(relaxed word: Int) -> UInt64 { words[word].load(ordering: .relaxed) }

  @inline(__always)
  func load(acquiring word: Int) -> UInt64 { words[word].load(ordering: .acquiring) }

  @inline(__always)
  func store(_ value: UInt64, relaxed word: Int) { words[word].store(value, ordering: .relaxed) }

  @inline(__always)
  func store(_ value: UInt64, releasing word: Int) {
    words[word].store(value, ordering: .releasing)
  }

  func exchange(_ value: UInt64, in word: Int) -> UInt64 {
    words[word].exchange(value, ordering: .acquiringAndReleasing)
  }

  func add(_ value: UInt64, to word: Int) {
    words[word].wrappingAdd(value, ordering: .acquiringAndReleasing)
  }
}

/// Words by which the processes of a shared store communicate without a lock.
///
/// **The snapshot** is a sequence lock. The writer, which alone has the lock, stores an odd
/// version, then the words, then the next even version. Suppose that a reader sees a word of a
/// publication that began after the reader's first load of the version. By the writer's releasing
/// fence (before that word's store) and the reader's acquiring fence (after that word's load), the
/// reader's second load of the version then reads the odd version or a later one. The two versions
/// differ, and the reader reads again. A reader that sees the even version has acquired all words
/// that were released with it. So the result is one whole publication. The words themselves are
/// relaxed: the fences order them.
///
/// **Watching.** A process that publishes (P) rings when another one watches (W):
///
///     P1  publish the version                 W1  count itself among the watchers
///     P2  fence                               W2  fence
///     P3  load the number of watchers         W3  load the version: what follows is news
///
/// One fence is first. P2 first: W3 reads P's version or a younger one, and W starts from that
/// version. W2 first: P3 counts W, and P rings. Without W's fence the load may come before the
/// counting, even where an exchange is sequentially consistent (Armv8.1's is two halves): W would
/// sleep for a second.
protocol SharedWords: ExchangingMemory where Place == Int {}

extension SharedWords {
  /// Only the holder of the writer's lock calls this function.
  func publish(_ snapshot: SharedPage.Publication) throws(Stop) {
    typealias Name = SharedPage.Word
    // The version is odd already when the last writer died in this function.
    let version = try load(acquiring: Name.version.rawValue) | 1
    try store(version, relaxed: Name.version.rawValue)
    try releasingFence()
    try store(snapshot.generation, relaxed: Name.generation.rawValue)
    try store(snapshot.tailSegment, relaxed: Name.tailSegment.rawValue)
    try store(UInt64(snapshot.tailEnd), relaxed: Name.tailEnd.rawValue)
    try store(UInt64(snapshot.tailLimit), relaxed: Name.tailLimit.rawValue)
    try store(snapshot.lastSequence, relaxed: Name.lastSequence.rawValue)
    try store(version &+ 1, releasing: Name.version.rawValue)
  }

  /// Returns the last publication; nil while another process is writing it or after a process died
  /// while doing so, and where the words describe no possible log.
  func snapshot(attempts: Int = 64) throws(Stop) -> SharedPage.Publication? {
    typealias Name = SharedPage.Word
    for _ in 0..<attempts {
      let version = try load(acquiring: Name.version.rawValue)
      guard version & 1 == 0 else { continue }
      let result = SharedPage.Publication(
        nonce: try load(relaxed: Name.nonce.rawValue), version: version,
        generation: try load(relaxed: Name.generation.rawValue),
        tailSegment: try load(relaxed: Name.tailSegment.rawValue),
        tailEnd: Int(clamping: try load(relaxed: Name.tailEnd.rawValue)),
        tailLimit: Int(clamping: try load(relaxed: Name.tailLimit.rawValue)),
        lastSequence: try load(relaxed: Name.lastSequence.rawValue))
      try acquiringFence()
      if try load(relaxed: Name.version.rawValue) == version {
        return result.isPlausible ? result : nil
      }
    }
    return nil
  }

  /// W1 to W3: registers a watcher. Each later publication rings the bell.
  ///
  /// - Returns: the version from which the watcher starts.
  func beginWatching() throws(Stop) -> UInt64 {
    try add(1, to: SharedPage.Word.watchers.rawValue)
    try sequentiallyConsistentFence()
    return try load(acquiring: SharedPage.Word.version.rawValue)
  }

  /// P2, P3: whether to ring, after publishing.
  func hasWatchers() throws(Stop) -> Bool {
    try sequentiallyConsistentFence()
    return try load(relaxed: SharedPage.Word.watchers.rawValue) > 0
  }
}

/// A pin asks compaction to keep a part of the log until a time, some seconds later. A feed for
/// which compaction did not wait learns of that (`cursorExpired`) by the manifest's horizon, never
/// by a pin. So no ordering here decides whether a feed is right. The owner's exchange acquires and
/// releases, so that a new owner's claim comes after the old one's. The time is stored before the
/// sequence is released: a process that sees the claim sees its time, or a younger one.
extension SharedPage {
  /// Number of pins. The pin of a process that watches changes marks the part of the log that the
  /// process has still to see.
  private static let pinCount = 120
  private static let pinWords = 4

  private func pin(_ index: Int, _ word: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    assert(index >= 0 && index < Self.pinCount && word < Self.pinWords, "the page has no such pin")
    return words + Word.pins + index * Self.pinWords + word
  }

  /// Takes the pin that the owner has already, or else a free one; nil when all are taken.
  ///
  /// - Parameters:
  ///   - owner: not 0.
  ///   - now: the current time. A pin whose time has passed is free: its owner was killed, or does
  ///     not watch.
  func takePin(_ owner: UInt64, now: UInt64) -> Int? {
    assert(owner != 0, "a pin without an owner is free")
    guard isWritable else { return nil }
    // A process that reads the store again or resumes it has forgotten its pin. With a second one,
    // the first would count until its time has passed, and the pins would not suffice for all.
    if let own = (0..<Self.pinCount).first(where: { isPin($0, of: owner) }) { return own }
    return (0..<Self.pinCount).first { index in
      let before = pin(index, 0).pointee.load(ordering: .relaxed)
      guard before == 0 || pin(index, 2).pointee.load(ordering: .relaxed) < now else {
        return false
      }
      return pin(index, 0).pointee.compareExchange(
        expected: before, desired: owner, ordering: .acquiringAndReleasing
      ).exchanged
    }
  }

  func isPin(_ index: Int, of owner: UInt64) -> Bool {
    pin(index, 0).pointee.load(ordering: .acquiring) == owner
  }

  /// Moves a pin.
  ///
  /// - Parameters:
  ///   - sequence: the first number that is still to be seen, less one; the maximum for none.
  ///   - until: when other processes stop waiting for the pin, in nanoseconds of the machine's
  ///     clock.
  func movePin(_ index: Int, to sequence: UInt64, until: UInt64) {
    assert(isWritable, "a process without the permission moves a pin")
    pin(index, 2).pointee.store(until, ordering: .relaxed)
    // 0 means none. So does the maximum: the maximum plus one is 0.
    pin(index, 1).pointee.store(sequence &+ 1, ordering: .releasing)
  }

  /// The number after which some process has still to see operations; the maximum when there is no
  /// pin.
  func leastPin(now: UInt64) -> UInt64 {
    (0..<Self.pinCount).reduce(UInt64.max) { least, index in
      let sequence = pin(index, 1).pointee.load(ordering: .acquiring)
      guard sequence > 0, pin(index, 2).pointee.load(ordering: .relaxed) > now else {
        return least
      }
      return min(least, sequence &- 1)
    }
  }
}
