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
final class SharedPage: @unchecked Sendable {
  static let fileName = "SHARED"
  static let lengthBytes = 4096
  /// Where a byte is written to wake those who watch the file.
  static let bellOffset: UInt64 = 4088
  private static let magic: UInt64 = 0x3152_4853_4E49_4152

  enum Word: Int {
    case magic, nonce, version
    case generation, tailSegment, tailEnd, tailLimit, lastSequence
    case burst, nextSegment, poison, watchers
    static let pins = 16
  }

  /// How far the log reaches, read in one piece.
  struct Snapshot: Equatable {
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

  func add(_ value: UInt64, to word: Word) {
    words[word.rawValue].wrappingAdd(value, ordering: .sequentiallyConsistent)
  }

  /// A number that no segment of this store has had.
  ///
  /// - Parameter least: what the caller knows of.
  func takeSegmentNumber(_ least: UInt64) -> UInt64 {
    let place = words + Word.nextSegment.rawValue
    var known = place.pointee.load(ordering: .relaxed)
    while true {
      let number = max(known, least)
      let (exchanged, original) = place.pointee.compareExchange(
        expected: known, desired: number + 1, ordering: .relaxed)
      if exchanged { return number }
      known = original
    }
  }

  var isMade: Bool { load(.magic) == Self.magic }

  /// Begins a new page. The caller alone writes to it; who only reads may have it from before. So
  /// its version goes on: with one that it has seen already, a reader would take it for old.
  func make(_ first: Snapshot, nextSegment: UInt64, nonce: UInt64) {
    // Odd while it is being made, and never one that a reader of the life before has seen.
    let version = load(.version) | 1
    words[Word.version.rawValue].store(version, ordering: .relaxed)
    atomicMemoryFence(ordering: .releasing)
    // Who watches stays counted: a reader, or one who was killed, for whom it is rung in vain.
    let kept = [Word.version.rawValue, Word.watchers.rawValue]
    for index in 0..<Self.lengthBytes / 8 where !kept.contains(index) {
      words[index].store(0, ordering: .relaxed)
    }
    store(nonce, .nonce)
    store(nextSegment, .nextSegment)
    publish(first)
    store(Self.magic, .magic)
  }

  /// The holder of the writer's lock alone calls it.
  func publish(_ snapshot: Snapshot) {
    // Odd already when the last writer died in here.
    let version = load(.version) | 1
    words[Word.version.rawValue].store(version, ordering: .relaxed)
    atomicMemoryFence(ordering: .releasing)
    put(snapshot.generation, .generation)
    put(snapshot.tailSegment, .tailSegment)
    put(UInt64(snapshot.tailEnd), .tailEnd)
    put(UInt64(snapshot.tailLimit), .tailLimit)
    put(snapshot.lastSequence, .lastSequence)
    store(version &+ 1, .version)
  }

  private func put(_ value: UInt64, _ word: Word) {
    words[word.rawValue].store(value, ordering: .relaxed)
  }

  /// Nil while somebody is writing it, or died while doing so.
  func snapshot() -> Snapshot? {
    for _ in 0..<64 {
      let version = load(.version)
      guard version & 1 == 0 else { continue }
      let result = Snapshot(
        nonce: get(.nonce), version: version, generation: get(.generation),
        tailSegment: get(.tailSegment), tailEnd: Int(clamping: get(.tailEnd)),
        tailLimit: Int(clamping: get(.tailLimit)), lastSequence: get(.lastSequence))
      atomicMemoryFence(ordering: .acquiring)
      if get(.version) == version { return result }
    }
    return nil
  }

  private func get(_ word: Word) -> UInt64 { words[word.rawValue].load(ordering: .relaxed) }
}

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
