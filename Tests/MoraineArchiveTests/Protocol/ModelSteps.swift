import MoraineArchive

/// The steps of a state.
extension ModelSearch {
  private var features: ModelFeatures { configuration.features }

  func visitSteps(of state: ModelState) throws(ModelViolation) {
    let world = tables.worlds.values[Int(state.world)]
    if try visitStableRead(of: state, world) { return }
    for index in 0..<configuration.writers {
      let writer = tables.writers.values[Int(state.writers[index])]
      try visitWriter(index, writer, state, world)
    }
    if !features.isDisjoint(with: [.follower, .restore]) {
      try visitReader(tables.readers.values[Int(state.reader)], state, world)
    }
    if features.contains(.cleaner), world.removed < world.newestPosition {
      clean(state, world, .world)
    }
    if features.contains(.expiringTerms) { expire(state, world) }
    if world.delayed != 0 {
      var next = world
      next.delayed = 0
      let step = ModelStep(
        actor: .world, input: nil, request: nil, note: "the delayed create has its effect or not")
      try create(world.delayed, &next, step)
      reach(with(state, next), step)
    }
  }

  /// Makes the step of a request whose answer can never change, when there is one, and returns
  /// true. The step changes nothing that others see, and others cannot change its answer: so a
  /// search that makes this step first and no other misses no violation.
  private func visitStableRead(
    of state: ModelState, _ world: ModelWorld
  ) throws(ModelViolation) -> Bool {
    if features.contains(.expiringTerms) || !configuration.isReduced { return false }
    for index in 0..<configuration.writers {
      let writer = tables.writers.values[Int(state.writers[index])]
      guard let request = writer.request, isStable(request, world) else { continue }
      try visitRequest(request, index, writer, state, world)
      return true
    }
    let reader = tables.readers.values[Int(state.reader)]
    if let request = reader.request, isStable(request, world) {
      try moveReader(.answer(answer(to: request, world)), state, world, request)
      return true
    }
    return false
  }

  /// Whether the answer to the request says that an object exists that is never removed.
  private func isStable(_ request: ArchiveRequest, _ world: ModelWorld) -> Bool {
    switch request {
    case .createTerm(let term), .readTerm(let term): world.terms & (1 << term) != 0
    case .createCheckpoint(let checkpoint): checkpoint.number <= world.checkpointCount
    case .readCheckpoint(let number): number <= world.checkpointCount
    case .createCommit, .readCommit: false
    }
  }

  private func with(_ state: ModelState, _ world: ModelWorld) -> ModelState {
    var state = state
    state.world = tables.worlds.number(of: world)
    return state
  }

  private func clean(_ state: ModelState, _ world: ModelWorld, _ actor: ModelStep.Actor) {
    var next = world
    next.objects[Int(world.removed)] = 0
    next.removed += 1
    reach(
      with(state, next),
      ModelStep(actor: actor, input: nil, request: nil, note: "removes the oldest commit"))
  }

  // MARK: Writers

  private func visitWriter(
    _ index: Int, _ writer: ModelWriter, _ state: ModelState, _ world: ModelWorld
  ) throws(ModelViolation) {
    switch writer.machine {
    case .off:
      // Writers are alike: they begin in their order.
      let isNext = index == 0 || !isOff(state.writers[index - 1])
      guard isNext else { return }
      for hints in hints(world) { try choose(index, .begin(hints), state, world) }
      return
    case .dead: return
    case .fenced: break
    case .takeOver, .shipping:
      if let request = writer.request {
        try visitRequest(request, index, writer, state, world)
      } else if case .shipping(let machine) = writer.machine {
        try visitChoices(machine, index, state, world)
      }
      if features.contains(.deaths) { try move(index, .die, state, world, nil, "") }
    }
    if world.removed < writer.cleaningLimit { clean(state, world, .writer(index)) }
  }

  private func isOff(_ writer: UInt32) -> Bool {
    tables.writers.values[Int(writer)].machine == .off
  }

  private func hints(_ world: ModelWorld) -> [ArchiveHints] {
    let (term, count) = (UInt64(world.highestTerm), UInt64(world.checkpointCount))
    if !configuration.rules.contains(.numberedCheckpoints) {
      return (0...count).map { ArchiveHints(term: term, checkpoint: $0) }
    }
    if !configuration.rules.contains(.contiguousTerms) { return [ArchiveHints()] }
    guard features.contains(.anyHints) else { return [ArchiveHints(term: term)] }
    var result: [ArchiveHints] = []
    for term in Set([0, term, term + 2]) {
      for checkpoint in Set([0, count, count + 2]) {
        for position in [0, UInt64(configuration.positions - 1)] {
          result.append(
            ArchiveHints(term: term, checkpoint: checkpoint, position: position))
        }
      }
    }
    // Sets have no order: a search is the same each time.
    return result.sorted {
      ($0.term, $0.checkpoint, $0.position) < ($1.term, $1.checkpoint, $1.position)
    }
  }

  /// Makes a step of a writer: its machine receives the input.
  private func move(
    _ index: Int, _ input: ModelInput, _ state: ModelState, _ world: ModelWorld,
    _ request: ArchiveRequest?, _ note: StaticString
  ) throws(ModelViolation) {
    let local = tables.step(writer: state.writers[index], input)
    func step() -> ModelStep {
      ModelStep(actor: .writer(index), input: input, request: request, note: note)
    }
    if let broken = broken(by: local.claim, world) { throw fail(broken, step()) }
    if case .acknowledged = local.claim { result.acknowledgements += 1 }
    var next = with(state, world)
    next.writers[index] = local.next
    reach(next, step())
  }

  /// A writer makes a choice and its request has its effect, in one step. The choice
  /// alone changes nothing that another step sees, so a search without the state between them
  /// misses no violation.
  private func choose(
    _ index: Int, _ input: ModelInput, _ state: ModelState, _ world: ModelWorld
  ) throws(ModelViolation) {
    let local = tables.step(writer: state.writers[index], input)
    precondition(local.claim == .none, "a choice claims nothing")
    let writer = tables.writers.values[Int(local.next)]
    guard let request = writer.request else { return }
    var state = state
    state.writers[index] = local.next
    try visitRequest(request, index, writer, state, world)
  }

  /// The choices of a writer that has no open request.
  private func visitChoices(
    _ machine: Shipping, _ index: Int, _ state: ModelState, _ world: ModelWorld
  ) throws(ModelViolation) {
    let head = machine.state.head.position
    if head < configuration.positions { try choose(index, .ship, state, world) }
    let newest = machine.state.checkpoint?.commit.position ?? 0
    guard newest < head, world.checkpointCount < 8 else { return }
    for position in newest + 1...head {
      let commit = world.history[Int(position) - 1]
      guard commit != 0 else {
        throw fail(
          "CHECKPOINT OF NOTHING at \(position)",
          ModelStep(actor: .writer(index), input: nil, request: nil, note: "checkpoint"))
      }
      try choose(index, .checkpoint(tables.commit(commit).commit), state, world)
    }
  }

  /// The effects and the answers of a writer's open request.
  private func visitRequest(
    _ request: ArchiveRequest, _ index: Int, _ writer: ModelWriter, _ state: ModelState,
    _ world: ModelWorld
  ) throws(ModelViolation) {
    var next = world
    var hasEffect = false
    var canLose = features.contains(.lostAnswers)
    switch request {
    case .createTerm(let term):
      precondition(term < 16, "terms are bounded")
      hasEffect = world.terms & (1 << term) == 0
      next.terms |= 1 << term
      next.highestTerm = max(world.highestTerm, UInt8(term))
      canLose = canLose && !world.hasLostTerm
    case .createCommit:
      let step = ModelStep(actor: .writer(index), input: nil, request: request, note: "")
      hasEffect = try create(writer.commit, &next, step)
      if features.contains(.delayedCreates), world.delayed == 0 {
        var delayed = world
        delayed.delayed = writer.commit
        try move(index, .answer(.unknown), state, delayed, request, "delayed")
      }
    case .createCheckpoint(let checkpoint):
      hasEffect = checkpoint.number > world.checkpointCount
      if hasEffect {
        let step = ModelStep(actor: .writer(index), input: nil, request: request, note: "")
        try createCheckpoint(checkpoint, &next, step)
      }
    case .readTerm, .readCommit, .readCheckpoint:
      try move(index, .answer(answer(to: request, world)), state, world, request, "")
      return
    }
    try move(index, .answer(hasEffect ? .created : .exists), state, next, request, "")
    guard canLose, hasEffect else { return }
    if case .createTerm = request { next.hasLostTerm = true }
    try move(index, .answer(.unknown), state, next, request, "has its effect")
  }

  private func answer(to request: ArchiveRequest, _ world: ModelWorld) -> ArchiveAnswer {
    switch request {
    case .readTerm(let term):
      return term < 16 && world.terms & (1 << term) != 0 ? .exists : .absent
    case .readCommit(let position):
      guard position <= 8, world.objects[Int(position) - 1] != 0 else { return .absent }
      return .commit(tables.commit(world.objects[Int(position) - 1]))
    case .readCheckpoint(let number):
      guard number <= world.checkpointCount else { return .absent }
      return .checkpoint(checkpoint(number, world))
    case .createTerm, .createCommit, .createCheckpoint: preconditionFailure("not a read")
    }
  }

  private func checkpoint(_ number: UInt64, _ world: ModelWorld) -> CheckpointSummary {
    let position = Int(world.checkpoints[Int(number) - 1])
    return CheckpointSummary(
      number: number, commit: tables.commit(world.history[position - 1]).commit)
  }

  /// The oldest term expires. The writer before that term, and a writer that takes over with it,
  /// have stalled too long.
  private func expire(_ state: ModelState, _ world: ModelWorld) {
    guard world.terms != 0 else { return }
    let expiring = UInt64(world.terms.trailingZeroBitCount)
    var next = world
    next.terms &= ~(1 << expiring)
    var after = with(state, next)
    for index in 0..<configuration.writers {
      let other = tables.writers.values[Int(state.writers[index])]
      if hasStalled(other, expiring) {
        after.writers[index] = tables.step(writer: state.writers[index], .stall).next
      }
    }
    reach(after, ModelStep(actor: .world, input: nil, request: nil, note: "a term expires"))
  }

  private func hasStalled(_ writer: ModelWriter, _ expiring: UInt64) -> Bool {
    guard writer.term != 0, configuration.stallRule != .ignored, !writer.hasStalled else {
      return false
    }
    switch writer.machine {
    case .takeOver: return writer.term + 1 == expiring || writer.term == expiring
    case .shipping(let machine):
      let isOpen = configuration.stallRule == .sinceLastCheck || !machine.isIdle
      return isOpen && writer.term + 1 == expiring
    default: return false
    }
  }

  // MARK: Reader

  private func visitReader(
    _ reader: ModelReader, _ state: ModelState, _ world: ModelWorld
  ) throws(ModelViolation) {
    if reader.hasEnded { return }
    if let request = reader.request {
      let answer = answer(to: request, world)
      return try moveReader(.answer(answer), state, world, request)
    }
    guard features.contains(.restore), !reader.hasBegun else {
      if (reader.machine.applied?.position ?? 0) < configuration.positions {
        try moveReader(.poll, state, world, nil)
      }
      return
    }
    // A restore begins at the newest checkpoint at or below its target.
    var newest: CheckpointSummary?
    for number in 0..<UInt64(world.checkpointCount) {
      let candidate = checkpoint(number + 1, world)
      if candidate.commit.position < configuration.positions { newest = candidate }
    }
    if newest?.commit.position != UInt64(configuration.positions - 1) {
      try moveReader(.restore(newest), state, world, nil)
    }
  }

  private func moveReader(
    _ input: ModelInput, _ state: ModelState, _ world: ModelWorld, _ request: ArchiveRequest?
  ) throws(ModelViolation) {
    let local = tables.step(reader: state.reader, input)
    func step() -> ModelStep {
      ModelStep(actor: .reader, input: input, request: request, note: "")
    }
    if let broken = broken(by: local.claim, world) { throw fail(broken, step()) }
    var next = state
    next.reader = local.next
    reach(next, step())
  }

  // MARK: The history

  /// Creates a commit, unless its position has one. Returns whether it was created.
  @discardableResult
  private func create(
    _ index: CommitIndex, _ world: inout ModelWorld, _ step: ModelStep
  ) throws(ModelViolation) -> Bool {
    let position = Int(tables.commit(index).commit.position)
    guard world.objects[position - 1] == 0 else { return false }
    world.objects[position - 1] = index
    guard world.history[position - 1] == 0 else { return true }
    world.history[position - 1] = index
    var before: CommitSummary?
    for position in 1...configuration.positions where world.history[position - 1] != 0 {
      let summary = tables.commit(world.history[position - 1])
      if let before {
        if before.commit.term > summary.commit.term {
          throw fail("TERM REGRESSION at \(position)", step)
        }
        let isNext = before.commit.position + 1 == summary.commit.position
        if configuration.checksChain, isNext, before.commit.identity != summary.previous {
          throw fail("BROKEN CHAIN at \(position)", step)
        }
      }
      before = summary
    }
    return true
  }

  private func createCheckpoint(
    _ checkpoint: CheckpointSummary, _ world: inout ModelWorld, _ step: ModelStep
  ) throws(ModelViolation) {
    let count = Int(world.checkpointCount)
    let position = Int(checkpoint.commit.position)
    if checkpoint.number != count + 1 { throw fail("CHECKPOINT NUMBER SKIPPED", step) }
    if position <= world.newestPosition { throw fail("CHECKPOINT BELOW ANOTHER", step) }
    world.checkpoints[count] = UInt8(position)
    world.checkpointCount += 1
  }

  /// The promise that a claim breaks; nil when the claim is right.
  private func broken(by claim: ModelClaim, _ world: ModelWorld) -> String? {
    switch claim {
    case .none: return nil
    case .acknowledged(let commit, let isFence):
      let position = Int(commit.position)
      let first = world.history[position - 1]
      if first == 0 || tables.commit(first).commit != commit { return "FALSE ACK at \(position)" }
      guard isFence else { return nil }
      let hasGap = (1...position).contains { world.history[$0 - 1] == 0 }
      return hasGap ? "FENCE ON A GAP at \(position)" : nil
    case .fenced(let term):
      return term >= world.highestTerm ? "FENCED WITHOUT A SUCCESSOR of term \(term)" : nil
    case .applied(let commits, let count, let start):
      for offset in 0..<Int(count) {
        let position = Int(start) + offset + 1
        if commits[offset] != world.history[position - 1] {
          return "READER APPLIED WHAT IS NOT HISTORY at \(position)"
        }
      }
      return nil
    case .rebased(let checkpoint):
      let first = world.history[Int(checkpoint.commit.position) - 1]
      let isHistory = first != 0 && tables.commit(first).commit == checkpoint.commit
      return isHistory ? nil : "READER REBASED TO WHAT IS NOT HISTORY"
    case .damaged: return "READER FOUND DAMAGE"
    }
  }
}
