import MoraineArchive

/// Gives each value that occurs a small number, so that a state of the model is a few numbers.
struct Numbering<Value: Hashable> {
  private(set) var values: [Value] = []
  private var numbers: [Value: UInt32] = [:]

  mutating func number(of value: Value) -> UInt32 {
    if let number = numbers[value] { return number }
    let number = UInt32(values.count)
    values.append(value)
    numbers[value] = number
    return number
  }
}

/// The result of one input to one writer or reader.
struct LocalStep {
  let next: UInt32
  let claim: ModelClaim
}

/// The values of a search, and the steps of the machines. The machines are values: a step depends
/// on the machine and its input alone, so each step is made once and remembered.
final class ModelTables {
  let configuration: ModelConfiguration
  var worlds = Numbering<ModelWorld>()
  var writers = Numbering<ModelWriter>()
  var readers = Numbering<ModelReader>()
  private var commits = Numbering<CommitSummary?>()
  private var inputs = Numbering<ModelInput>()
  private var writerSteps: [UInt64: LocalStep] = [:]
  private var readerSteps: [UInt64: LocalStep] = [:]

  init(_ configuration: ModelConfiguration) {
    self.configuration = configuration
    _ = commits.number(of: nil)
  }

  func commit(_ index: CommitIndex) -> CommitSummary {
    guard let commit = commits.values[Int(index)] else { preconditionFailure("no commit") }
    return commit
  }

  func index(of commit: CommitSummary) -> CommitIndex {
    CommitIndex(commits.number(of: commit))
  }

  /// Returns the writer after the input.
  func step(writer: UInt32, _ input: ModelInput) -> LocalStep {
    let key = UInt64(writer) << 32 | UInt64(inputs.number(of: input))
    if let step = writerSteps[key] { return step }
    var next = writers.values[Int(writer)]
    let claim = apply(input, to: &next)
    let step = LocalStep(next: writers.number(of: next), claim: claim)
    writerSteps[key] = step
    return step
  }

  /// Returns the reader after the input.
  func step(reader: UInt32, _ input: ModelInput) -> LocalStep {
    let key = UInt64(reader) << 32 | UInt64(inputs.number(of: input))
    if let step = readerSteps[key] { return step }
    var next = readers.values[Int(reader)]
    let claim = apply(input, to: &next)
    let step = LocalStep(next: readers.number(of: next), claim: claim)
    readerSteps[key] = step
    return step
  }

  // MARK: Writers

  private func apply(_ input: ModelInput, to writer: inout ModelWriter) -> ModelClaim {
    if case .die = input { return end(&writer, as: .dead) }
    switch writer.machine {
    case .off:
      guard case .begin(let hints) = input else { preconditionFailure("a writer begins") }
      var machine = TakeOver(hints, rules: configuration.rules)
      return finish(machine.begin(), &machine, &writer)
    case .takeOver(var machine):
      guard !writer.hasStalled else {
        guard case .request = machine.stalledTooLong() else {
          preconditionFailure("a writer that stalled begins again")
        }
        return end(&writer, as: .dead)
      }
      guard case .answer(let answer) = input else { return stall(&writer) }
      return finish(machine.receive(answer), &machine, &writer)
    case .shipping(var machine):
      return apply(input, to: &machine, of: &writer)
    case .fenced, .dead: preconditionFailure("the writer has ended")
    }
  }

  private func apply(
    _ input: ModelInput, to machine: inout Shipping, of writer: inout ModelWriter
  ) -> ModelClaim {
    if writer.hasStalled || (input == .stall && machine.isIdle) {
      let action = machine.stalledTooLong()
      precondition(action == .mustAttachAgain, "a writer that stalled acknowledges nothing")
      return end(&writer, as: .dead)
    }
    switch input {
    case .ship:
      let identity = newIdentity(&writer)
      let head = machine.state.head
      let commit = CommitReference(
        position: head.position + 1, term: machine.state.term, identity: identity)
      writer.commit = index(of: CommitSummary(commit, previous: head.identity))
      return finish(machine.ship(identity), machine, &writer)
    case .checkpoint(let commit): return finish(machine.checkpoint(commit), machine, &writer)
    case .answer(let answer): return finish(machine.receive(answer), machine, &writer)
    default: return stall(&writer)
    }
  }

  private func stall(_ writer: inout ModelWriter) -> ModelClaim {
    writer.hasStalled = true
    return .none
  }

  private func newIdentity(_ writer: inout ModelWriter) -> CommitIdentity {
    writer.identities += 1
    return CommitIdentity(high: UInt64(writer.number) + 1, low: UInt64(writer.identities))
  }

  private func end(_ writer: inout ModelWriter, as machine: ModelWriter.Machine) -> ModelClaim {
    // A writer that can do nothing more is dead.
    let limit = machine == .dead ? 0 : writer.cleaningLimit
    let machine = limit == 0 ? .dead : machine
    writer = ModelWriter(number: writer.number, machine: machine, cleaningLimit: limit)
    return .none
  }

  private func finish(
    _ action: TakeOver.Action, _ machine: inout TakeOver, _ writer: inout ModelWriter
  ) -> ModelClaim {
    switch action {
    case .request(let request):
      writer.request = request
      if case .createCommit = request { break }
      writer.commit = 0
    case .headFound(let head):
      guard head.position < configuration.positions else { return end(&writer, as: .dead) }
      let identity = newIdentity(&writer)
      let fence = CommitReference(
        position: head.position + 1, term: head.term, identity: identity)
      writer.commit = index(of: CommitSummary(fence, previous: head.previous))
      return finish(machine.fence(identity), &machine, &writer)
    case .fenced:
      let term = machine.term
      _ = end(&writer, as: .fenced)
      return .fenced(term: term)
    case .attached(let state):
      (writer.request, writer.commit) = (nil, 0)
      writer.machine = .shipping(Shipping(state, rules: configuration.rules))
      return .acknowledged(state.head, isFence: true)
    }
    writer.machine = .takeOver(machine)
    return .none
  }

  private func finish(
    _ action: Shipping.Action, _ machine: Shipping, _ writer: inout ModelWriter
  ) -> ModelClaim {
    writer.request = nil
    writer.machine = .shipping(machine)
    switch action {
    case .request(let request): writer.request = request
    case .acknowledged(let commit):
      writer.commit = 0
      return .acknowledged(commit, isFence: false)
    case .checkpointed(let checkpoint):
      if !configuration.features.contains(.cleaner) {
        writer.cleaningLimit = UInt8(checkpoint.commit.position)
      }
    case .superseded: break
    case .fenced:
      let term = machine.state.term
      _ = end(&writer, as: .fenced)
      return .fenced(term: term)
    case .mustAttachAgain: preconditionFailure("only a stall ends so")
    }
    return .none
  }

  // MARK: Reader

  private func apply(_ input: ModelInput, to reader: inout ModelReader) -> ModelClaim {
    switch input {
    case .restore(let checkpoint):
      let target = UInt64(configuration.positions - 1)
      reader.machine = HistoryReader(checkpoint, target: target, rules: configuration.rules)
      reader.hasBegun = true
      return poll(&reader, count: .max)
    case .poll: return poll(&reader, count: configuration.followerBatch)
    case .answer(let answer):
      if case .commit(let commit) = answer {
        reader.read[Int(reader.readCount)] = index(of: commit)
        reader.readCount += 1
      }
      return finish(reader.machine.receive(answer), &reader)
    default: preconditionFailure("no input of a reader")
    }
  }

  private func poll(_ reader: inout ModelReader, count: UInt64) -> ModelClaim {
    reader.start = UInt8(reader.machine.applied?.position ?? 0)
    let target = UInt64(configuration.positions - 1)
    if configuration.features.contains(.restore), reader.start >= target {
      reader.hasEnded = true
      return .none
    }
    return finish(reader.machine.poll(count), &reader)
  }

  private func finish(
    _ action: HistoryReader.Action, _ reader: inout ModelReader
  ) -> ModelClaim {
    if case .request(let request) = action {
      reader.request = request
      return .none
    }
    let (read, start) = (reader.read, reader.start)
    (reader.request, reader.read, reader.readCount) = (nil, SIMD8(), 0)
    reader.start = 0
    let isRestore = configuration.features.contains(.restore)
    switch action {
    case .apply(let positions):
      precondition(positions.lowerBound == UInt64(start) + 1, "the range begins after the state")
      reader.hasEnded = isRestore
      return .applied(read, count: UInt8(positions.count), start: start)
    case .rebase(let checkpoint): return .rebased(checkpoint)
    case .damaged: return .damaged
    case .unavailable, .upToDate:
      reader.hasEnded = isRestore
      return .none
    case .request: preconditionFailure("handled above")
    }
  }
}
