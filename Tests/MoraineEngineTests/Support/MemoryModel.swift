@testable import MoraineEngine

/// A model of memory after C11, in the operational form of views (Kang et al., "A promising
/// semantics for relaxed-memory concurrency", POPL 2017, without promises; Lahav et al., PLDI
/// 2017). A word is the list of all stores to it. A thread may load any of these stores that is not
/// older than its view; its view grows by its loads, and by the fences and locks that it passes.
///
/// The model leaves out loads of future stores (load buffering), and stores that are ordered before
/// earlier stores. No protocol here depends on their absence: a thread's store never depends on a
/// relaxed load of the same step alone.
struct MemoryModel: Hashable {
  typealias View = [Int: Int]

  private struct Message: Hashable {
    let value: UInt64
    /// The view that a thread gets when it acquires the store.
    let view: View
  }

  private struct Knowledge: Hashable {
    /// The oldest store of each word that the thread may still load.
    var now: View = [:]
    /// The view that an acquiring fence would add.
    var acquired: View = [:]
    /// The view that a relaxed store carries: everything that was known at the last releasing
    /// fence.
    var released: View = [:]

    mutating func learn(_ view: View) {
      now.join(view)
      acquired.join(view)
    }
  }

  private var words: [Int: [Message]]
  private var threads: [Knowledge]
  private var consistent: View = [:]
  private var lockOwner: Int?
  private var lockView: View = [:]

  init(_ initial: [Int: UInt64], threadCount: Int) {
    words = initial.mapValues { [Message(value: $0, view: [:])] }
    threads = Array(repeating: Knowledge(), count: threadCount)
  }

  /// Returns the last store to a word.
  func last(_ word: Int) -> UInt64 { words[word]?.last?.value ?? 0 }

  /// Returns all possible results of a thread's access: the value that it gets and the memory after
  /// it. Returns none while the thread must wait for the lock.
  func outcomes(of access: Access, by thread: Int) -> [(value: UInt64, memory: MemoryModel)] {
    switch access {
    case .load(let word, let isAcquiring):
      let stored = words[word] ?? []
      return ((threads[thread].now[word] ?? 0)..<stored.count).map { place in
        var next = self
        next.threads[thread].now.join([word: place])
        next.threads[thread].acquired.join([word: place])
        next.threads[thread].acquired.join(stored[place].view)
        if isAcquiring { next.threads[thread].now.join(stored[place].view) }
        return (stored[place].value, next)
      }
    case .store(let word, let value, let isReleasing):
      var next = self
      let view = isReleasing ? threads[thread].now : threads[thread].released
      next.append(value, to: word, by: thread, view)
      return [(0, next)]
    case .update(let word, let change):
      var next = self
      guard let last = words[word]?.last else { return [] }
      next.threads[thread].learn(last.view)
      next.append(change.value(last.value), to: word, by: thread, next.threads[thread].now)
      return [(last.value, next)]
    case .fence(let kind):
      var next = self
      next.pass(kind, by: thread)
      return [(0, next)]
    case .lock:
      guard lockOwner == nil else { return [] }
      var next = self
      next.lockOwner = thread
      next.threads[thread].learn(lockView)
      return [(0, next)]
    case .unlock:
      precondition(lockOwner == thread, "a thread unlocks what it has not locked")
      var next = self
      next.lockOwner = nil
      next.lockView = threads[thread].now
      return [(0, next)]
    }
  }

  private mutating func append(_ value: UInt64, to word: Int, by thread: Int, _ view: View) {
    let place = words[word]?.count ?? 0
    var view = view
    view.join([word: place])
    words[word, default: []].append(Message(value: value, view: view))
    threads[thread].now.join([word: place])
    threads[thread].acquired.join([word: place])
  }

  private mutating func pass(_ kind: Fence, by thread: Int) {
    if kind != .releasing { threads[thread].now = threads[thread].acquired }
    if kind == .sequentiallyConsistent {
      threads[thread].learn(consistent)
      consistent = threads[thread].now
    }
    if kind != .acquiring { threads[thread].released = threads[thread].now }
  }

  enum Fence: Hashable { case acquiring, releasing, sequentiallyConsistent }

  enum Change: Hashable {
    case exchange(UInt64)
    case add(UInt64)

    func value(_ before: UInt64) -> UInt64 {
      switch self {
      case .exchange(let value): value
      case .add(let value): before &+ value
      }
    }
  }

  enum Access: Hashable {
    case load(Int, isAcquiring: Bool)
    case store(Int, UInt64, isReleasing: Bool)
    case update(Int, Change)
    case fence(Fence)
    case lock, unlock
  }
}

extension MemoryModel.View {
  fileprivate mutating func join(_ other: MemoryModel.View) {
    merge(other, uniquingKeysWith: Swift.max)
  }
}

/// One thread of a model. It runs the lines of the engine from their beginning each time, with the
/// values that its accesses have returned so far, and stops before the next access.
final class ModelThread: SharedWords {
  struct Stop: Error { let access: MemoryModel.Access }

  private let values: [UInt64]
  private var count = 0
  /// Fences of this kind have no effect, which shows that a test can fail.
  private let without: MemoryModel.Fence?

  init(_ values: [UInt64], without: MemoryModel.Fence? = nil) {
    self.values = values
    self.without = without
  }

  private func access(_ access: MemoryModel.Access) throws(Stop) -> UInt64 {
    guard count < values.count else { throw Stop(access: access) }
    count += 1
    return values[count - 1]
  }

  func load(relaxed word: Int) throws(Stop) -> UInt64 {
    try access(.load(word, isAcquiring: false))
  }

  func load(acquiring word: Int) throws(Stop) -> UInt64 {
    try access(.load(word, isAcquiring: true))
  }

  func store(_ value: UInt64, relaxed word: Int) throws(Stop) {
    _ = try access(.store(word, value, isReleasing: false))
  }

  func store(_ value: UInt64, releasing word: Int) throws(Stop) {
    _ = try access(.store(word, value, isReleasing: true))
  }

  func exchange(_ value: UInt64, in word: Int) throws(Stop) -> UInt64 {
    try access(.update(word, .exchange(value)))
  }

  func add(_ value: UInt64, to word: Int) throws(Stop) {
    _ = try access(.update(word, .add(value)))
  }

  func acquiringFence() throws(Stop) { try fence(.acquiring) }
  func releasingFence() throws(Stop) { try fence(.releasing) }
  func sequentiallyConsistentFence() throws(Stop) { try fence(.sequentiallyConsistent) }

  private func fence(_ kind: MemoryModel.Fence) throws(Stop) {
    if kind != without { _ = try access(.fence(kind)) }
  }

  func lock() throws(Stop) { _ = try access(.lock) }
  func unlock() throws(Stop) { _ = try access(.unlock) }
}

/// Runs threads in every order, with every value that the model lets a load return.
struct Interleavings {
  typealias Program = @Sendable (ModelThread) throws(ModelThread.Stop) -> [UInt64]

  let programs: [Program]
  let initial: [Int: UInt64]
  var without: MemoryModel.Fence?

  struct Outcome: Hashable {
    /// The results of the programs.
    let answers: [[UInt64]]
    let memory: MemoryModel
  }

  private struct State: Hashable {
    var memory: MemoryModel
    var values: [[UInt64]]
  }

  /// Returns all possible outcomes.
  func outcomes() -> Set<Outcome> {
    var seen: Set<State> = []
    var outcomes: Set<Outcome> = []
    var waiting = [
      State(
        memory: MemoryModel(initial, threadCount: programs.count),
        values: Array(repeating: [], count: programs.count))
    ]
    while let state = waiting.popLast() {
      guard seen.insert(state).inserted else { continue }
      var answers: [[UInt64]] = []
      var isStuck = true
      for (number, program) in programs.enumerated() {
        do throws(ModelThread.Stop) {
          answers.append(try program(ModelThread(state.values[number], without: without)))
        } catch {
          for (value, memory) in state.memory.outcomes(of: error.access, by: number) {
            isStuck = false
            var next = State(memory: memory, values: state.values)
            next.values[number].append(value)
            waiting.append(next)
          }
        }
      }
      if answers.count == programs.count {
        outcomes.insert(Outcome(answers: answers, memory: state.memory))
      } else {
        precondition(!isStuck, "the threads of the model wait for each other")
      }
    }
    return outcomes
  }
}
