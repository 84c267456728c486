#if S3
  import Synchronization

  /// Lets a number of uploads run at the same time. The others wait, in the order in which they
  /// came: each upload that ends lets the one run that has waited longest.
  final class UploadLimit: Sendable {
    private struct Waiter: Sendable {
      let number: UInt64
      let continuation: UnsafeContinuation<Bool, Never>
    }

    private struct State: Sendable {
      var running = 0
      /// In the order of their arrival. When one waits, as many uploads run as may.
      var waiting: [Waiter] = []
      var lastNumber: UInt64 = 0
    }

    private let count: Int
    private let state = Mutex(State())

    init(_ count: Int) {
      precondition(count > 0, "no upload could ever run")
      self.count = count
    }

    /// The number of uploads that run.
    var runningCount: Int { state.withLock { $0.running } }

    /// The number of uploads that wait.
    var waitingCount: Int { state.withLock { $0.waiting.count } }

    /// Waits until an upload may run, which then ends with ``leave()``.
    ///
    /// - Parameter patience: how long to wait.
    /// - Returns: whether the upload may run; false when the time was over or the task was
    ///   cancelled before.
    func enter(within patience: Duration) async -> Bool {
      let hasEntered = state.withLock { state in
        guard state.running < count else { return false }
        state.running += 1
        return true
      }
      if hasEntered { return true }
      return await withTaskGroup(of: Bool.self) { group in
        group.addTask { await self.wait() }
        group.addTask {
          // The cancellation ends the sleep, and is no error here.
          do { try await Task.sleep(for: patience) } catch {}
          return false
        }
        var hasEntered = false
        // The waiting also has its answer when the time ends first: it may have been let in just
        // then.
        for await answer in group {
          if answer { hasEntered = true }
          group.cancelAll()
        }
        return hasEntered
      }
    }

    /// Waits until an upload that ends lets this one run. Returns false when the task was cancelled
    /// before.
    private func wait() async -> Bool {
      let number = state.withLock { state in
        state.lastNumber += 1
        return state.lastNumber
      }
      return await withTaskCancellationHandler {
        await withUnsafeContinuation { (continuation: UnsafeContinuation<Bool, Never>) in
          let answer: Bool? = state.withLock { state in
            // A cancellation is recorded before `onCancel` looks for the continuation under this
            // lock.
            if Task.isCancelled { return false }
            if state.running < count {
              state.running += 1
              return true
            }
            state.waiting.append(Waiter(number: number, continuation: continuation))
            return nil
          }
          if let answer { continuation.resume(returning: answer) }
        }
      } onCancel: {
        let waiter = state.withLock { state -> Waiter? in
          guard let place = state.waiting.firstIndex(where: { $0.number == number }) else {
            return nil
          }
          return state.waiting.remove(at: place)
        }
        waiter?.continuation.resume(returning: false)
      }
    }

    /// Ends an upload.
    func leave() {
      let next = state.withLock { state -> Waiter? in
        assert(state.running > 0, "an upload leaves that has not entered")
        // The one that waits takes the place of the one that leaves.
        if !state.waiting.isEmpty { return state.waiting.removeFirst() }
        state.running -= 1
        return nil
      }
      next?.continuation.resume(returning: true)
    }
  }
#endif
