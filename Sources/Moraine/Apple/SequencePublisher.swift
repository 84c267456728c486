#if canImport(Combine)
  public import Combine
  import MoraineEngine
  import Synchronization

  // Written for Apple platforms and never run there: this project is built and tested on Linux.

  extension LocalRepository {
    /// A publisher of the changes of the models from now on.
    ///
    /// Written for Apple platforms, and **never run**.
    public nonisolated var changesPublisher: SequencePublisher<ModelChangeSequence<Model>> {
      SequencePublisher(changes)
    }
  }

  extension PersistedProjection {
    /// A publisher of the current value and of each later one.
    ///
    /// Written for Apple platforms, and **never run**.
    public var publisher: SequencePublisher<PersistedValues<Value>> { SequencePublisher(values) }
  }

  /// A publisher of the elements of a sequence. It fetches them one by one, on demand. They arrive
  /// on a thread of the concurrency pool; use `receive(on:)` to receive them elsewhere.
  ///
  /// Written for Apple platforms, and **never run**.
  public struct SequencePublisher<Base: AsyncSequence & Sendable>: Publisher, Sendable {
    public typealias Output = Base.Element
    public typealias Failure = Base.Failure

    private let base: Base

    init(_ base: Base) { self.base = base }

    public func receive<Target: Subscriber>(subscriber: Target)
    where Target.Input == Output, Target.Failure == Failure {
      subscriber.receive(
        subscription: SequenceSubscription(
          base, receive: { subscriber.receive($0) },
          complete: { subscriber.receive(completion: $0) }))
    }
  }

  /// Fetches elements for one subscriber.
  ///
  /// Safety of `@unchecked Sendable`: only one task calls the subscriber's closures, one call after
  /// the other. A lock protects all other state.
  private final class SequenceSubscription<Base: AsyncSequence & Sendable>:
    Subscription, @unchecked Sendable
  {
    typealias Completion = Subscribers.Completion<Base.Failure>

    private struct State {
      var demand = Subscribers.Demand.none
      var task: Task<Void, Never>?
      var isCancelled = false
      var waiting: UnsafeContinuation<Void, Never>?
    }

    private let base: Base
    private let receive: (Base.Element) -> Subscribers.Demand
    private let complete: (Completion) -> Void
    private let state = Mutex(State())

    init(
      _ base: Base, receive: @escaping (Base.Element) -> Subscribers.Demand,
      complete: @escaping (Completion) -> Void
    ) {
      self.base = base
      self.receive = receive
      self.complete = complete
    }

    func request(_ demand: Subscribers.Demand) {
      let waiting = state.withLock { state in
        state.demand += demand
        if state.task == nil, !state.isCancelled { state.task = Task { await self.run() } }
        defer { state.waiting = nil }
        return state.waiting
      }
      waiting?.resume()
    }

    func cancel() {
      let (task, waiting) = state.withLock { state in
        state.isCancelled = true
        defer { state.waiting = nil }
        return (state.task, state.waiting)
      }
      task?.cancel()
      waiting?.resume()
    }

    private func run() async {
      do throws(Base.Failure) {
        var iterator = base.makeAsyncIterator()
        while await isWanted(), let element = try await iterator.next(isolation: nil) {
          if state.withLock({ $0.isCancelled }) { return }
          let more = receive(element)
          state.withLock { $0.demand += more }
        }
        if !state.withLock({ $0.isCancelled }) { complete(.finished) }
      } catch {
        if !state.withLock({ $0.isCancelled }) { complete(.failure(error)) }
      }
    }

    /// Waits for demand and decreases it by one. Returns false when the subscription was cancelled.
    private func isWanted() async -> Bool {
      while true {
        let isWanted = state.withLock { state -> Bool? in
          if state.isCancelled { return false }
          guard state.demand > .none else { return nil }
          state.demand -= 1
          return true
        }
        if let isWanted { return isWanted }
        await withUnsafeContinuation { continuation in
          let isOver = state.withLock { state in
            if state.isCancelled || state.demand > .none { return true }
            state.waiting = continuation
            return false
          }
          if isOver { continuation.resume() }
        }
      }
    }
  }
#endif
