import Testing

@testable import MoraineEngine

/// The words that the readers of a store and its writer exchange without a lock, in every order of
/// their accesses.
@Suite struct ReaderInterleavingTests {
  private struct Epochs: ExchangingMemory {
    typealias Stop = ModelThread.Stop
    let thread: ModelThread

    private func place(_ word: EpochWord) -> Int {
      switch word {
      case .current: 0
      case .parity: 1
      case .request: 6
      case .readers(let slot, let parity): 2 + 2 * slot + Int(parity)
      }
    }

    func load(relaxed word: EpochWord) throws(Stop) -> UInt64 {
      try thread.load(relaxed: place(word))
    }
    func load(acquiring word: EpochWord) throws(Stop) -> UInt64 {
      try thread.load(acquiring: place(word))
    }
    func store(_ value: UInt64, relaxed word: EpochWord) throws(Stop) {
      try thread.store(value, relaxed: place(word))
    }
    func store(_ value: UInt64, releasing word: EpochWord) throws(Stop) {
      try thread.store(value, releasing: place(word))
    }
    func exchange(_ value: UInt64, in word: EpochWord) throws(Stop) -> UInt64 {
      try thread.exchange(value, in: place(word))
    }
    func add(_ value: UInt64, to word: EpochWord) throws(Stop) {
      try thread.add(value, to: place(word))
    }
    func acquiringFence() throws(Stop) { try thread.acquiringFence() }
    func releasingFence() throws(Stop) { try thread.releasingFence() }
    func sequentiallyConsistentFence() throws(Stop) { try thread.sequentiallyConsistentFence() }
  }

  /// 1 when the object with this number was released.
  private static func isReleased(_ object: UInt64) -> Int { 8 + Int(object) }

  /// Reads, and answers whether the object that it used was released.
  private static func reader(slot: Int, _ count: Int) -> Interleavings.Program {
    { (thread) throws(ModelThread.Stop) in
      let words = Epochs(thread: thread)
      var answers: [UInt64] = []
      for _ in 0..<count {
        let (parity, object) = try words.enter(slot: slot)
        answers.append(try thread.load(relaxed: isReleased(object)))
        try words.leave(slot: slot, parity: parity)
      }
      return answers
    }
  }

  /// Replaces the object a number of times, and looks at the counts up to three times after each.
  private static func writer(_ count: UInt64, slots: Int) -> Interleavings.Program {
    { (thread) throws(ModelThread.Stop) in
      let words = Epochs(thread: thread)
      var released: UInt64 = 0
      for object in 2...count + 1 {
        let old = try words.replace(by: object)
        var progress = EpochProgress.begun
        for _ in 0..<3 where progress != .ended {
          progress = try words.advance(progress, slots: slots)
        }
        guard progress == .ended else { return [released] }
        try thread.store(1, relaxed: isReleased(old))
        released += 1
      }
      return [released]
    }
  }

  private static func outcomes(
    _ programs: [Interleavings.Program], without: MemoryModel.Fence? = nil
  ) -> Set<Interleavings.Outcome> {
    var initial = Dictionary(uniqueKeysWithValues: (1..<12).map { ($0, UInt64(0)) })
    initial[0] = 1
    return Interleavings(programs: programs, initial: initial, without: without).outcomes()
  }

  private static func usesOfReleased(_ outcomes: Set<Interleavings.Outcome>) -> Int {
    outcomes.count { $0.answers.dropLast().joined().contains(1) }
  }

  @Test func objectIsReleasedAfterItsReadersHaveLeft() {
    for programs in [
      [Self.reader(slot: 0, 2), Self.writer(1, slots: 1)],
      [Self.reader(slot: 0, 1), Self.reader(slot: 0, 1), Self.writer(1, slots: 1)],
      [Self.reader(slot: 0, 1), Self.writer(2, slots: 1)],
    ] {
      let outcomes = Self.outcomes(programs)
      #expect(Self.usesOfReleased(outcomes) == 0)
      // The writer released the object in some orders, and in others it did not.
      #expect(Set(outcomes.map { $0.answers.last }).count > 1)
    }
  }

  @Test func theModelFindsAReleaseWithoutTheFence() {
    let outcomes = Self.outcomes(
      [Self.reader(slot: 0, 1), Self.writer(1, slots: 1)], without: .sequentiallyConsistent)
    #expect(Self.usesOfReleased(outcomes) > 0)
  }

  /// The lock of the looks: 1 while a thread has it.
  private static let lockWord = 7
  /// 1 when a look has seen that the reader has left. Only the thread with the lock uses it.
  private static let seenWord = 5

  /// A look at the count of the reader, by the thread that has the lock.
  ///
  /// - Returns: whether a look has seen that the reader has left.
  private static func look(
    _ words: Epochs, _ thread: ModelThread
  ) throws(ModelThread.Stop) -> Bool {
    if try words.hasNoReaders(slots: 1, parity: 0) { try thread.store(1, relaxed: seenWord) }
    let isSeen = try thread.load(relaxed: seenWord) == 1
    try thread.store(0, releasing: lockWord)
    return isSeen
  }

  /// Looks at the count unless another thread has the lock.
  private static func lookIfUnlocked(
    _ words: Epochs, _ thread: ModelThread, asks: Bool
  ) throws(ModelThread.Stop) {
    while true {
      if asks { try words.requestLook() }
      guard try thread.exchange(1, in: lockWord) == 0 else { return }
      if asks { _ = try words.takeRequest() }
      let isSeen = try look(words, thread)
      guard asks, !isSeen, try words.takeRequest() else { return }
    }
  }

  /// Returns whether the reader has been seen to leave when both threads have ended. At first the
  /// reader reads, and the writer has the lock and has changed the parity.
  private static func seen(asks: Bool) -> Set<UInt64> {
    let reader: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Epochs(thread: thread)
      try words.leave(slot: 0, parity: 0)
      try words.sequentiallyConsistentFence()
      try lookIfUnlocked(words, thread, asks: asks)
      return []
    }
    let writer: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Epochs(thread: thread)
      _ = try look(words, thread)
      if asks, try words.takeRequest() { try lookIfUnlocked(words, thread, asks: asks) }
      return []
    }
    var initial = Dictionary(uniqueKeysWithValues: (0..<12).map { ($0, UInt64(0)) })
    (initial[1], initial[2], initial[lockWord]) = (1, 1, 1)
    let outcomes = Interleavings(programs: [reader, writer], initial: initial).outcomes()
    return Set(outcomes.map { $0.memory.last(seenWord) })
  }

  @Test func leavingBesideALookIsNotMissed() {
    #expect(Self.seen(asks: true) == [1])
  }

  @Test func theModelFindsAMissedLeavingWithoutRequests() {
    #expect(Self.seen(asks: false) == [0, 1])
  }

  /// A reader that a look has counted looks itself when it has left.
  @Test func readerThatIsAwaitedKnowsIt() {
    let reader: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Epochs(thread: thread)
      let (parity, _) = try words.enter(slot: 0)
      try words.leave(slot: 0, parity: parity)
      try words.sequentiallyConsistentFence()
      return [try words.mayBeAwaited(parity: parity) ? 1 : 0]
    }
    let writer: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Epochs(thread: thread)
      _ = try words.replace(by: 2)
      return [try words.advance(.begun, slots: 1) == .changed ? 1 : 0]
    }
    let outcomes = Self.outcomes([reader, writer])
    #expect(outcomes.contains { $0.answers == [[1], [1]] })
    #expect(!outcomes.contains { $0.answers == [[0], [1]] })
  }

  private struct Recent: WordMemory {
    typealias Stop = ModelThread.Stop
    let thread: ModelThread

    private func place(_ word: RecentWord) -> Int {
      switch word {
      case .version: 0
      case .hash(let index): 1 + index
      case .address(let index): 5 + index
      case .filter(let index): 16 + index
      }
    }

    func load(relaxed word: RecentWord) throws(Stop) -> UInt64 {
      try thread.load(relaxed: place(word))
    }
    func load(acquiring word: RecentWord) throws(Stop) -> UInt64 {
      try thread.load(acquiring: place(word))
    }
    func store(_ value: UInt64, relaxed word: RecentWord) throws(Stop) {
      try thread.store(value, relaxed: place(word))
    }
    func store(_ value: UInt64, releasing word: RecentWord) throws(Stop) {
      try thread.store(value, releasing: place(word))
    }
    func acquiringFence() throws(Stop) { try thread.acquiringFence() }
    func releasingFence() throws(Stop) { try thread.releasingFence() }
    func sequentiallyConsistentFence() throws(Stop) { try thread.sequentiallyConsistentFence() }

    /// Returns the address of a hash; nil when the hash was not added.
    func address(of hash: UInt64) throws(Stop) -> UInt64? {
      guard try mayHave(hash, mask: 3) else { return nil }
      let found = try place(of: hash, mask: 3)
      return found.isFree ? nil : try load(acquiring: .address(found.place))
    }

    func add(_ address: UInt64, of hash: UInt64) throws(Stop) {
      let found = try place(of: hash, mask: 3)
      // The bytes of the record.
      try thread.store(1, relaxed: 9 + Int(address))
      try set(address, of: hash, at: found.place, isFree: found.isFree, mask: 3)
    }
  }

  private static let noRecords = Dictionary(uniqueKeysWithValues: (0..<17).map { ($0, UInt64(0)) })

  /// Two keys whose hashes have the same first place; the second record of one key.
  @Test func readerFindsTheBytesOfEachRecordThatItFinds() {
    let writer: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Recent(thread: thread)
      try words.add(1, of: 5)
      try words.add(2, of: 9)
      try words.add(3, of: 5)
      return []
    }
    func reader(_ hash: UInt64) -> Interleavings.Program {
      { (thread) throws(ModelThread.Stop) in
        guard let address = try Recent(thread: thread).address(of: hash) else { return [0, 1] }
        // A hash without an address has no record either.
        return [address, address == 0 ? 0 : try thread.load(relaxed: 9 + Int(address))]
      }
    }
    var found: Set<UInt64> = []
    for hash in [5, 9] as [UInt64] {
      let outcomes = Interleavings(programs: [writer, reader(hash)], initial: Self.noRecords)
        .outcomes()
      for outcome in outcomes {
        #expect(outcome.answers[1][1] == 1, "an address without its record")
        #expect(hash == 5 ? outcome.answers[1][0] != 2 : outcome.answers[1][0] != 1)
        found.insert(outcome.answers[1][0])
      }
    }
    #expect(found == [0, 1, 2, 3])
  }

  /// A batch of two keys, and a reader that looks both up, one after the other.
  private static func halfBatches(isMarked: Bool = true) -> Int {
    let writer: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Recent(thread: thread)
      if isMarked { try words.beginBatch() }
      try words.add(1, of: 5)
      try words.add(2, of: 6)
      if isMarked { try words.endBatch() }
      return []
    }
    let reader: Interleavings.Program = { (thread) throws(ModelThread.Stop) in
      let words = Recent(thread: thread)
      var answers: [UInt64] = []
      for hash in [5, 6] as [UInt64] {
        let version = try words.beginLookUp()
        let address = try words.address(of: hash) ?? 0
        guard try words.endLookUp(version) else { return [] }
        answers.append(address)
      }
      return answers
    }
    let outcomes = Interleavings(programs: [writer, reader], initial: noRecords).outcomes()
    if isMarked {
      #expect(Set(outcomes.map { $0.answers[1] }) == [[], [0, 0], [0, 2], [1, 2]])
    }
    return outcomes.count { $0.answers[1].first == 1 && $0.answers[1].last == 0 }
  }

  @Test func batchBecomesVisibleAsAWhole() { #expect(Self.halfBatches() == 0) }

  @Test func theModelFindsHalfABatchWithoutTheVersion() {
    #expect(Self.halfBatches(isMarked: false) > 0)
  }
}
