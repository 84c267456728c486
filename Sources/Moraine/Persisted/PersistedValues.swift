import Synchronization

/// A sequence of a persisted value: the current value first, then the latest value after each
/// change.
///
/// A slow reader misses the values between two calls and gets the latest one, so no values queue
/// up. When the store cannot be followed any more, the sequence returns the value once more, and
/// ``PersistedProjection/error`` has the reason. The sequence ends when the task is cancelled.
public struct PersistedValues<Value: Codable & Sendable>: AsyncSequence, Sendable {
  public typealias Element = Value
  public typealias Failure = Never

  let box: PersistedBox<Value>

  public func makeAsyncIterator() -> Iterator { Iterator(box: box) }

  /// Waits for the next value. For one task at a time.
  public struct Iterator: AsyncIteratorProtocol {
    private let box: PersistedBox<Value>
    private var seenCount: UInt64?

    fileprivate init(box: PersistedBox<Value>) { self.box = box }

    public mutating func next(isolation actor: isolated (any Actor)?) async -> Value? {
      while !Task.isCancelled {
        let (value, count) = box.state.withLock { ($0.value, $0.changeCount) }
        if seenCount != count {
          seenCount = count
          return value
        }
        await box.waitForChange(after: count)
      }
      return nil
    }
  }
}

/// The last number that was given to a waiting task.
private let lastWaiter = Atomic<UInt64>(0)

extension PersistedBox {
  fileprivate func waitForChange(after count: UInt64) async {
    let id = lastWaiter.add(1, ordering: .relaxed).newValue
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        let isOver = state.withLock { state in
          if state.changeCount != count || Task.isCancelled { return true }
          state.waiters[id] = continuation
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiters.removeValue(forKey: id) }?.resume()
    }
  }
}
