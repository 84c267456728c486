/// Tasks of an actor that wait until the actor wakes them or until they are cancelled.
///
/// Part of the actor's state: no other isolation uses it.
struct Waiters {
  private var waiting: [UInt64: UnsafeContinuation<Void, Never>] = [:]
  private var lastID: UInt64 = 0

  var count: Int { waiting.count }

  /// An identity for a task that is about to wait.
  mutating func nextID() -> UInt64 {
    lastID += 1
    return lastID
  }

  /// Keeps a continuation until ``wakeAll()`` or ``wake(_:)``.
  mutating func add(_ continuation: UnsafeContinuation<Void, Never>, as id: UInt64) {
    assert(id > 0 && id <= lastID, "a task waits with an id that was not given to it")
    assert(waiting[id] == nil, "two tasks wait with the same id")
    waiting[id] = continuation
  }

  /// Resumes one task, where it still waits.
  mutating func wake(_ id: UInt64) { waiting.removeValue(forKey: id)?.resume() }

  @inline(__always)
  mutating func wakeAll() {
    if !waiting.isEmpty { resumeAll() }
  }

  private mutating func resumeAll() {
    let woken = waiting
    waiting = [:]
    for continuation in woken.values { continuation.resume() }
  }
}
