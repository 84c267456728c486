import MoraineArchive
import MoraineFormat

/// The rules of a cleaning that a search can switch off, to see that each of them is needed.
struct CleaningRules: OptionSet, Hashable {
  let rawValue: UInt8
  /// Objects of a term stay until a writer of a higher term has made a checkpoint, unless an older
  /// checkpoint names them.
  static let terms = CleaningRules(rawValue: 1 << 0)
  /// The term after that of the newest checkpoint must be absent.
  static let laterTerm = CleaningRules(rawValue: 1 << 1)
  /// The newest checkpoint is read before the term is asked for.
  static let checkpointFirst = CleaningRules(rawValue: 1 << 2)
  /// Commits of earlier writers are read for the contents that they name.
  static let gaps = CleaningRules(rawValue: 1 << 3)
  static let all = CleaningRules(rawValue: 15)
}

/// An object is a bit: of a term and of one of two segments.
typealias ObjectBits = UInt16

/// A short row of values without memory of its own.
struct Row<Element: Hashable>: Hashable {
  private var first: Element?
  private var second: Element?
  private var third: Element?
  private var fourth: Element?
  private(set) var count = 0

  init() {}

  init(repeating element: Element, count: Int) { for _ in 0..<count { append(element) } }

  subscript(_ index: Int) -> Element {
    get {
      let element =
        switch index {
        case 0: first
        case 1: second
        case 2: third
        default: fourth
        }
      guard let element else { preconditionFailure("a row is shorter") }
      return element
    }
    set {
      switch index {
      case 0: first = newValue
      case 1: second = newValue
      case 2: third = newValue
      default: fourth = newValue
      }
    }
  }

  mutating func append(_ element: Element) {
    precondition(count < 4, "a row has four places")
    self[count] = element
    count += 1
  }

  var last: Element? { count > 0 ? self[count - 1] : nil }
  var isEmpty: Bool { count == 0 }
}

/// The objects of an archive, writers that copy two segments, and a cleaner.
struct CleaningState: Hashable {
  struct Entry: Hashable {
    var term: UInt8
    /// The objects that a gap names; 0 for other commits.
    var names: ObjectBits = 0
  }

  struct Checkpoint: Hashable {
    var position: UInt8
    var term: UInt8
    var names: ObjectBits
  }

  struct Writer: Hashable {
    enum Phase: Hashable { case off, hasTerm, attached, dead }
    /// What an upload is for.
    enum Purpose: Hashable { case checkpoint, gap, checkpointOfGap }
    struct Upload: Hashable {
      var purpose: Purpose
      var position: UInt8
      var names: ObjectBits
    }

    var phase = Phase.off
    var term: UInt8 = 0
    /// The objects of the last checkpoint that the writer has read or made.
    var known: ObjectBits = 0
    var knownNumber: UInt8 = 0
    /// The segments of its store: bits 0 and 1.
    var store: UInt8 = 1
    /// Whether the second segment was written: each segment is written once.
    var hasWritten = false
    /// Own objects that no checkpoint names yet.
    var uploaded: ObjectBits = 0
    var head: UInt8 = 0
    var upload: Upload?
  }

  struct Cleaner: Hashable {
    enum Phase: Hashable { case idle, hasNewest, hasTerm, planned, ended }
    var phase = Phase.idle
    var newest: UInt8 = 0
    var canRemove = false
    var removing: ObjectBits = 0
    /// The first checkpoint that is kept, from 1; 0 for all.
    var base: UInt8 = 0
  }

  var exists: ObjectBits = 0
  var highestTerm: UInt8 = 0
  var history = Row<Entry>()
  var checkpoints = Row<Checkpoint>()
  var writers: Row<Writer>
  var cleaner = Cleaner()
}

/// A search over all interleavings of the requests of writers and of one cleaner.
///
/// Taking over is one step here, as ``ProtocolModelTests`` shows it: a writer that attaches has
/// read the newest checkpoint, and commits of earlier writers become history no more.
struct CleaningSearch {
  let rules: CleaningRules
  let historyLimit: Int
  private(set) var stateCount = 0
  private(set) var removalCount = 0
  private(set) var violation: String?
  private var visited: Set<CleaningState> = []
  private var queue: [CleaningState] = []
  private var parents: [Int] = []
  private var steps: [Step] = []
  private var current = 0

  /// One step, for the path that leads to a violation.
  private struct Step {
    let text: StaticString
    let index: Int
    let bits: ObjectBits
  }

  init(_ rules: CleaningRules, writers: Int, historyLimit: Int) {
    (self.rules, self.historyLimit) = (rules, historyLimit)
    let start = CleaningState(writers: Row(repeating: .init(), count: writers))
    visited.insert(start)
    queue.append(start)
    parents.append(0)
    steps.append(Step(text: "begin", index: 0, bits: 0))
  }

  static func bit(_ term: UInt8, _ segment: Int) -> ObjectBits { 1 << (2 * Int(term) + segment) }

  mutating func run() {
    while current < queue.count, violation == nil {
      let state = queue[current]
      for index in 0..<state.writers.count { visitWriter(index, state) }
      visitCleaner(state)
      current += 1
    }
    stateCount = queue.count
  }

  private mutating func reach(
    _ next: CleaningState, _ text: StaticString, _ index: Int = 0, _ bits: ObjectBits = 0
  ) {
    guard violation == nil, visited.insert(next).inserted else { return }
    parents.append(current)
    steps.append(Step(text: text, index: index, bits: bits))
    queue.append(next)
    guard let broken = broken(next) else { return }
    var (path, number): ([String], Int) = ([], queue.count - 1)
    while number > 0 {
      let step = steps[number]
      path.append("\(step.text) (\(step.index), objects \(String(step.bits, radix: 2)))")
      number = parents[number]
    }
    violation = broken + ": " + path.reversed().joined(separator: "; ")
  }

  /// Each checkpoint from the base on, and each commit after it, names objects that exist.
  private func broken(_ state: CleaningState) -> String? {
    let base = Int(state.cleaner.base)
    for index in max(base - 1, 0)..<max(base - 1, state.checkpoints.count, 0) {
      let checkpoint = state.checkpoints[index]
      if checkpoint.names & ~state.exists != 0 { return "CHECKPOINT WITHOUT ITS OBJECT" }
    }
    let first = base > 0 ? Int(state.checkpoints[base - 1].position) : 0
    for index in min(first, state.history.count)..<state.history.count {
      let entry = state.history[index]
      if entry.names & ~state.exists != 0 { return "GAP WITHOUT ITS OBJECT" }
    }
    return nil
  }

  // MARK: Writers

  private mutating func visitWriter(_ index: Int, _ state: CleaningState) {
    let writer = state.writers[index]
    var next = state
    switch writer.phase {
    case .dead: return
    case .off:
      if index > 0, state.writers[index - 1].phase == .off { return }
      next.highestTerm += 1
      (next.writers[index].phase, next.writers[index].term) = (.hasTerm, next.highestTerm)
      reach(next, "a writer creates a term", index)
    case .hasTerm: attach(index, state)
    case .attached:
      if let upload = writer.upload {
        visitUpload(index, upload, state)
      } else {
        begin(index, state)
      }
      if !writer.hasWritten, state.history.last?.term == writer.term,
        state.history.count < historyLimit, writer.upload == nil
      {
        var next = state
        next.writers[index].hasWritten = true
        next.writers[index].store |= 2
        next.history.append(.init(term: writer.term))
        next.writers[index].head = UInt8(next.history.count)
        reach(next, "a writer writes a segment and a commit", index)
      }
      // Compaction replaces a segment, or the writer was a copy that lacks it.
      for segment in 0..<2 where writer.store & (1 << segment) != 0 {
        var next = state
        next.writers[index].store &= ~(1 << segment)
        reach(next, "a writer compacts segment", index)
      }
    }
  }

  private mutating func attach(_ index: Int, _ state: CleaningState) {
    var next = state
    if state.writers[index].term < state.highestTerm || state.history.count >= historyLimit {
      next.writers[index].phase = .dead
      return reach(next, "a writer gives up", index)
    }
    next.history.append(.init(term: state.writers[index].term))
    next.writers[index].phase = .attached
    next.writers[index].head = UInt8(next.history.count)
    next.writers[index].known = state.checkpoints.last?.names ?? 0
    next.writers[index].knownNumber = UInt8(state.checkpoints.count)
    reach(next, "a writer attaches", index)
  }

  private mutating func begin(_ index: Int, _ state: CleaningState) {
    for purpose in [CleaningState.Writer.Purpose.checkpoint, .gap] {
      var next = state
      var names: ObjectBits = 0
      let writer = state.writers[index]
      for segment in 0..<2 where writer.store & (1 << segment) != 0 {
        let all = (0..<4).reduce(ObjectBits(0)) { $0 | Self.bit($1, segment) }
        let known = writer.known & all
        names |= known != 0 ? known : Self.bit(writer.term, segment)
      }
      next.writers[index].upload = .init(purpose: purpose, position: writer.head, names: names)
      reach(next, "a writer begins a", index)
    }
  }

  private mutating func visitUpload(
    _ index: Int, _ upload: CleaningState.Writer.Upload, _ state: CleaningState
  ) {
    let writer = state.writers[index]
    let own = Self.bit(writer.term, 0) | Self.bit(writer.term, 1)
    let missing = upload.names & own & ~writer.uploaded & ~writer.known
    if missing != 0 {
      var next = state
      let object = missing & (~missing + 1)
      next.exists |= object
      next.writers[index].uploaded |= object
      return reach(next, "a writer uploads", index)
    }
    if upload.purpose == .gap { return createGap(index, upload, state) }
    createCheckpoint(index, upload, state)
  }

  private mutating func createGap(
    _ index: Int, _ upload: CleaningState.Writer.Upload, _ state: CleaningState
  ) {
    var next = state
    if state.history.last?.term != state.writers[index].term
      || state.history.count >= historyLimit
    {
      next.writers[index].phase = .dead
      return reach(next, "a writer is fenced, or ends", index)
    }
    next.history.append(.init(term: state.writers[index].term, names: upload.names))
    next.writers[index].head = UInt8(next.history.count)
    next.writers[index].upload = .init(
      purpose: .checkpointOfGap, position: UInt8(next.history.count), names: upload.names)
    reach(next, "a writer creates a gap of", index)
    // It dies before the checkpoint of the gap.
    next.writers[index].phase = .dead
    reach(next, "a writer creates a gap of", index)
  }

  private mutating func createCheckpoint(
    _ index: Int, _ upload: CleaningState.Writer.Upload, _ state: CleaningState
  ) {
    var next = state
    let writer = state.writers[index]
    if Int(writer.knownNumber) < state.checkpoints.count {
      let found = state.checkpoints[Int(writer.knownNumber)]
      next.writers[index].knownNumber += 1
      if found.term > writer.term {
        next.writers[index].phase = .dead
      } else if found.position >= upload.position {
        next.writers[index].upload = nil
      }
      return reach(next, "a writer finds checkpoint", index)
    }
    if (state.checkpoints.last?.position ?? 0) >= upload.position || state.checkpoints.count == 4 {
      next.writers[index].upload = nil
      return reach(next, "a writer needs no checkpoint", index)
    }
    next.checkpoints.append(
      .init(position: upload.position, term: writer.term, names: upload.names))
    next.writers[index].known = upload.names
    next.writers[index].knownNumber = UInt8(next.checkpoints.count)
    (next.writers[index].upload, next.writers[index].uploaded) = (nil, 0)
    reach(next, "a writer makes a checkpoint of", index)
  }

  // MARK: Cleaner

  private mutating func visitCleaner(_ state: CleaningState) {
    var next = state
    let cleaner = state.cleaner
    switch cleaner.phase {
    case .idle, .hasNewest, .hasTerm:
      let readsCheckpoint = (cleaner.phase == .idle) == rules.contains(.checkpointFirst)
      if cleaner.phase == .hasTerm { return plan(state) }
      next.cleaner.phase = cleaner.phase == .idle ? .hasNewest : .hasTerm
      if readsCheckpoint {
        guard !state.checkpoints.isEmpty else { return }
        next.cleaner.newest = UInt8(state.checkpoints.count)
      } else {
        // Without the rule, the term that is absent belongs to the newest checkpoint of now.
        let isFirst = rules.contains(.checkpointFirst)
        let number = isFirst ? Int(cleaner.newest) : state.checkpoints.count
        guard number > 0 else { return }
        let isAbsent = state.checkpoints[number - 1].term == state.highestTerm
        next.cleaner.canRemove = isAbsent || !rules.contains(.laterTerm)
        if !next.cleaner.canRemove { next.cleaner.phase = .ended }
      }
      reach(next, "the cleaner reads")
    case .planned:
      guard cleaner.removing != 0 else { return }
      next.cleaner.removing &= cleaner.removing - 1
      next.exists &= ~(cleaner.removing & (~cleaner.removing + 1))
      removalCount += 1
      reach(next, "the cleaner removes one of", 0, cleaner.removing)
    case .ended: return
    }
  }

  /// Chooses the objects to remove, by the rule of the archive.
  private mutating func plan(_ state: CleaningState) {
    let newest = state.checkpoints[Int(state.cleaner.newest) - 1]
    for base in 1...state.cleaner.newest {
      var removable = RemovableObjects(newestTerm: UInt64(newest.term))
      for index in 0..<Int(state.cleaner.newest) {
        let names = Self.objects(state.checkpoints[index].names)
        if index + 1 >= Int(base) {
          removable.kept.formUnion(names)
        } else {
          removable.dropped.formUnion(names)
        }
      }
      let first = Int(state.checkpoints[Int(base) - 1].position)
      if rules.contains(.gaps) {
        for index in min(first, Int(newest.position))..<Int(newest.position) {
          let entry = state.history[index]
          if entry.term >= newest.term { break }
          removable.kept.formUnion(Self.objects(entry.names))
        }
      }
      var next = state
      next.cleaner.base = base
      next.cleaner.phase = .planned
      for object in Self.objects(state.exists) {
        let isRemoved =
          rules.contains(.terms)
          ? removable.contains(object) : !removable.kept.contains(object)
        if isRemoved {
          next.cleaner.removing |= Self.bit(UInt8(object.term), Int(object.nonce.low) - 1)
        }
      }
      reach(next, "the cleaner keeps from", Int(base), next.cleaner.removing)
    }
  }

  private static func objects(_ bits: ObjectBits) -> [DataObjectName] {
    (2..<16).filter { bits & (1 << $0) != 0 }.map { index in
      DataObjectName(
        term: UInt64(index / 2), nonce: Nonce(low: UInt64(index % 2) + 1, high: 0))
    }
  }
}
