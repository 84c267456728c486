import MoraineFormat
import MoraineStorage
import Synchronization

/// The page of memory that the processes of a shared store have in common: how far the log reaches
/// that all may read.
///
/// It is no part of the store: whoever comes first makes it anew, and after a crash of the machine
/// nothing in it is believed. What is true is the log. Between processes that live it is: a kill
/// leaves it as it was, and says by the word `burst` that a writer died in the middle.
///
/// Safety of `@unchecked Sendable`: every word is atomic. Those that belong together are written by
/// the holder of the writer's lock alone, between an odd and an even `version` (a sequence lock:
/// Lameter 2005, "Effective Synchronization on Linux/NUMA Systems"); the bytes of the log that they
/// speak of were written before, so whoever acquires the version sees them.
///
/// What the processes tell each other with its words, and why it is right, says ``SharedWords``.
final class SharedPage: @unchecked Sendable {
  static let lengthBytes = 4096
  /// Where a byte is written to wake those who watch the file.
  static let bellOffset: UInt64 = 4088
  private static let magic: UInt64 = 0x3152_4853_4E49_4152

  enum Word: Int {
    case magic, nonce, version
    case generation, tailSegment, tailEnd, tailLimit, lastSequence
    case leaseHolder, nextSegment, poison, watchers
    /// The inodes of the lock files; 0 where version 0.1.0 made the page.
    case writerInode, compactorInode
    static let pins = 16
  }

  /// How far the log reaches, read in one piece.
  struct Publication: Equatable {
    var nonce: UInt64 = 0
    var version: UInt64 = 0
    /// Of the manifest.
    var generation: UInt64 = 0
    /// The last segment; 0 for none.
    var tailSegment: UInt64 = 0
    /// Behind its last whole unit.
    var tailEnd = 0
    /// Where it is full; 0 when nothing is to be appended to it any more.
    var tailLimit = 0
    var lastSequence: UInt64 = 0
    /// Whether the log reaches as far as its units are whole. The page never says so: it is so for
    /// one who has the lock of a writer that died while it published.
    var takesAllUnits = false

    /// Whether a log can reach that far. The words have no checksum: a number that no log has is
    /// taken for the page of a writer that died while it wrote.
    var isPlausible: Bool {
      let longest = Int(clamping: Limits.segmentLengthBytes)
      return tailEnd <= longest && tailLimit <= longest && generation <= Limits.manifestCounter
        && lastSequence <= SequenceNumber.max.rawValue
    }
  }

  private let mapping: any FileMapping
  /// False for a reader that may not write to the file.
  let isWritable: Bool
  private let words: UnsafeMutablePointer<Atomic<UInt64>>

  init(_ mapping: any FileMapping, isWritable: Bool) {
    self.mapping = mapping
    self.isWritable = isWritable
    words = mapping.base.assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  var base: UnsafeRawPointer { UnsafeRawPointer(mapping.base) }

  /// Of a page that lies there.
  @inline(__always)
  static func version(at base: UnsafeRawPointer) -> UInt64 {
    let words = base.assumingMemoryBound(to: Atomic<UInt64>.self)
    return words[Word.version.rawValue].load(ordering: .acquiring)
  }

  @inline(__always)
  func load(_ word: Word) -> UInt64 { words[word.rawValue].load(ordering: .acquiring) }

  func store(_ value: UInt64, _ word: Word) {
    words[word.rawValue].store(value, ordering: .releasing)
  }

  /// Says that this process watches or, with the maximum, that it no longer does.
  func add(_ value: UInt64, to word: Word) { add(value, to: word.rawValue) }

  /// A number that no segment of this store has had.
  ///
  /// Relaxed: the number is all that is taken. No two takers get one number, because each exchange
  /// reads the last value; the file that gets the number is created exclusively.
  ///
  /// - Parameter least: what the caller knows of.
  func takeSegmentNumber(_ least: UInt64) -> UInt64 {
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

  /// The last number that a writer has given, also where it died while it published: the word has
  /// its old value or its new one. A number that an operation used up in vain stands nowhere else.
  var lastSequenceWhateverDied: UInt64 {
    let last = load(.lastSequence)
    return last <= SequenceNumber.max.rawValue ? last : 0
  }

  /// Begins a new page. The caller alone writes to it; who only reads may have it from before. So
  /// its version goes on: with one that it has seen already, a reader would take it for old.
  ///
  /// - Parameter inodes: of the lock files, by their words.
  func make(
    _ first: Publication, nextSegment: UInt64, nonce: UInt64, inodes: [Word: UInt64] = [:]
  ) {
    // Odd while it is being made, and never one that a reader of the life before has seen.
    let version = load(.version) | 1
    words[Word.version.rawValue].store(version, ordering: .relaxed)
    atomicMemoryFence(ordering: .releasing)
    // Who watches stays counted: a reader, or one who was killed, for whom it is rung in vain.
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

/// What the processes of a shared store tell each other without a lock.
///
/// **The snapshot** is a sequence lock. The writer, who alone has the lock, stores an odd version,
/// then the words, then the next even version. A reader that sees a word of a publication which
/// began after its first load of the version has, by the writer's releasing fence (before that
/// word's store) and its own acquiring fence (after that word's load), the odd version or a later
/// one before its second load: the two versions differ and it reads again. A reader that sees the
/// even version has acquired all words that it was released with. So what it returns is one
/// publication, whole. The words themselves are relaxed: the fences order them.
///
/// **Watching.** A process that publishes (P) rings when another one watches (W):
///
///     P1  publish the version                 W1  count itself among the watchers
///     P2  fence                               W2  fence
///     P3  load the number of watchers         W3  load the version: what follows is news
///
/// One fence is first. P2: W3 gives P's version or a younger one, and W starts from that. W2: P3
/// counts W, and P rings. Without W's fence the load may come before the counting, also where an
/// exchange is sequentially consistent (Armv8.1's is two halves): W would sleep for a second.
protocol SharedWords: ExchangingMemory where Place == Int {}

extension SharedWords {
  /// The holder of the writer's lock alone calls it.
  func publish(_ snapshot: SharedPage.Publication) throws(Stop) {
    typealias Name = SharedPage.Word
    // Odd already when the last writer died in here.
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

  /// Nil while another process is writing it, or died while doing so, and where its words are no
  /// log's.
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

  /// W1 to W3: what is published from now on is rung for.
  ///
  /// - Returns: the version that was there before.
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

/// Pins. A claim is a hint with a time: compaction waits for what is pinned, for some seconds, and
/// a feed that was not waited for is told so (`cursorExpired`) by the manifest's horizon, never by
/// a pin. So no ordering here decides whether a feed is right. The owner's exchange acquires and
/// releases, so that a new owner's claim comes after the old one's. The time is stored before the
/// sequence is released: who sees the claim sees its time, or a younger one.
extension SharedPage {
  /// Of each process that watches changes: what of the log it has still to see.
  private static let pinCount = 120
  private static let pinWords = 4

  private func pin(_ index: Int, _ word: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    words + Word.pins + index * Self.pinWords + word
  }

  /// Takes a place of one's own; nil when all are taken.
  ///
  /// - Parameters:
  ///   - owner: not 0.
  ///   - now: a place whose owner has not moved for long is free: it was killed, or does not watch.
  func takePin(_ owner: UInt64, now: UInt64) -> Int? {
    guard isWritable else { return nil }
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

  /// - Parameters:
  ///   - sequence: the first that is still to be seen, less one; the maximum for none.
  ///   - until: when nobody need wait for it any more, in nanoseconds of the machine's clock.
  func movePin(_ index: Int, to sequence: UInt64, until: UInt64) {
    pin(index, 2).pointee.store(until, ordering: .relaxed)
    // 0 means none: so does the maximum, and one more than it is 0.
    pin(index, 1).pointee.store(sequence &+ 1, ordering: .releasing)
  }

  /// What some process has still to see is behind this number; the maximum when there is nobody.
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
