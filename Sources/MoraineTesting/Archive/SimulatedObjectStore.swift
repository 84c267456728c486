public import MoraineArchive
import MoraineEngine
import Synchronization

/// A store of objects in memory, in which a script makes requests fail, hang or arrive late.
///
/// Each request has its effect at one moment, so the store is linearizable. The stores that ship
/// remove many objects one after the other: see ``ObjectFault/partial(count:)``. A name may be a
/// prefix of another one, as in a bucket.
///
/// ```swift
/// let objects = SimulatedObjectStore()
/// objects.setScript { request in
///   request.verb == .create && request.repetition == 0 ? .answerLost : nil
/// }
/// ```
///
/// Thread safety: one lock protects the state; it is not held while a request waits.
public final class SimulatedObjectStore: ObjectStore {
  /// Decides about each request. The store calls it under its lock, so it must not use the store.
  public typealias Script = @Sendable (ObjectRequest) -> ObjectFault?

  /// Numbers of requests and of bytes.
  public struct Traffic: Hashable, Sendable {
    /// Number of requests of each verb, including those that failed.
    public var requests: [ObjectRequest.Verb: Int] = [:]
    /// Number of bytes in the bodies of requests, including those that failed.
    public var sentBytes = 0
    /// Number of bytes of objects in answers.
    public var receivedBytes = 0

    /// Number of all requests.
    public var requestCount: Int { requests.values.reduce(0, +) }
  }

  /// A change that a request makes.
  private enum Change {
    case create(ObjectName, [UInt8])
    case put(ObjectName, [UInt8])
    case remove([ObjectName])
  }

  /// A change that has not had its effect yet.
  private struct Delayed {
    let request: ObjectRequest
    let change: Change
    /// Number of the request before which the change has its effect; nil when a test decides.
    let due: Int?
  }

  private struct Call: Hashable {
    let verb: ObjectRequest.Verb
    let object: ObjectName
  }

  private struct State {
    var objects: [ObjectName: [UInt8]] = [:]
    /// The names that a stale list returns.
    var listed: Set<ObjectName> = []
    var script: Script?
    var trace: [ObjectRequest] = []
    var requestCount = 0
    var calls: [Call: Int] = [:]
    var delayed: [Delayed] = []
    var traffic = Traffic()
  }

  private let state: Mutex<State>

  /// Creates a store with objects.
  public init(_ objects: [ObjectName: [UInt8]] = [:]) {
    precondition(objects[.root] == nil, "the root of a store of objects is not an object")
    state = Mutex(State(objects: objects, listed: Set(objects.keys)))
  }
}

/// Control by a test. None of these calls counts as a request.
extension SimulatedObjectStore {
  /// All objects. Setting them replaces the whole content, also what a stale list returns; delayed
  /// requests stay delayed.
  public var objects: [ObjectName: [UInt8]] {
    get { state.withLock { $0.objects } }
    set {
      precondition(newValue[.root] == nil, "the root of a store of objects is not an object")
      state.withLock { state in
        state.objects = newValue
        state.listed = Set(newValue.keys)
      }
    }
  }

  /// The bytes of an object. Setting them creates, replaces or removes it, unlike a request, at
  /// once: for damage.
  public subscript(_ name: ObjectName) -> [UInt8]? {
    get { state.withLock { $0.objects[name] } }
    set {
      precondition(name != .root, "the root of a store of objects is not an object")
      state.withLock { $0.objects[name] = newValue }
    }
  }

  /// Sets the script that decides about each later request; nil for no faults.
  public func setScript(_ script: Script?) { state.withLock { $0.script = script } }

  /// Every request so far, in order, including failed ones.
  public var trace: [ObjectRequest] { state.withLock { $0.trace } }

  /// Numbers of requests and of bytes so far.
  public var traffic: Traffic { state.withLock { $0.traffic } }

  /// Removes the trace and sets the numbers of ``traffic`` to 0. The numbers of requests continue.
  public func clearTrace() {
    state.withLock { state in
      state.trace = []
      state.traffic = Traffic()
    }
  }

  /// Requests that have not had their effect yet, in their order.
  public var delayedRequests: [ObjectRequest] {
    state.withLock { $0.delayed.map(\.request) }
  }

  /// Makes delayed requests have their effect now, in their order. A delayed
  /// ``ObjectRequest/Verb/create`` has an effect only when no object has the name now.
  ///
  /// - Parameter indices: numbers of requests; nil for all.
  public func deliverDelayed(_ indices: Set<Int>? = nil) {
    state.withLock { state in
      Self.deliver(&state) { indices?.contains($0.request.index) ?? true }
    }
  }

  /// Makes delayed requests never have an effect.
  public func dropDelayed() { state.withLock { $0.delayed = [] } }
}

extension SimulatedObjectStore {
  public func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    let bytes = try Self.bytes(of: body, for: name)
    return try await change(.create, name, .create(name, bytes), sent: bytes.count)
      ? .created : .exists
  }

  public func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    let bytes = try Self.bytes(of: body, for: name)
    _ = try await change(.put, name, .put(name, bytes), sent: bytes.count)
  }

  public func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    guard let first = names.first else { return }
    _ = try await change(.remove, first, .remove(names), sent: 0)
  }

  public func get(
    _ name: ObjectName, _ range: Range<Int>?
  ) async throws(ObjectStoreError) -> [UInt8]? {
    precondition(range.map { $0.lowerBound >= 0 } ?? true, "a range begins before an object")
    return try await read(.get, name) { state, fault in
      guard let object = state.objects[name] else { return nil }
      var bytes = range.map { Array(object[$0.clamped(to: 0..<object.count)]) } ?? object
      if case .torn(let length) = fault { bytes = Array(bytes.prefix(length)) }
      state.traffic.receivedBytes += bytes.count
      return bytes
    }
  }

  public func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    precondition(limit > 0, "a list of no names was asked for")
    let start = prefix == .root ? "" : prefix.text + "/"
    return try await read(.list, prefix) { state, fault in
      if case .stale = fault {} else { state.listed = Set(state.objects.keys) }
      let names = state.listed.filter { name in
        name.text.hasPrefix(start) && last.map { $0 < name } ?? true
      }
      return Array(names.sorted().prefix(limit))
    }
  }
}

extension SimulatedObjectStore {
  /// Makes a request that changes the store.
  ///
  /// - Returns: whether the change had an effect.
  private func change(
    _ verb: ObjectRequest.Verb, _ name: ObjectName, _ change: Change, sent: Int
  ) async throws(ObjectStoreError) -> Bool {
    precondition(name != .root, "the root of a store of objects is not an object")
    try Self.checkCancellation(name)
    let (request, fault) = begin(verb, name, sent: sent)
    switch fault {
    case .answerLost:
      _ = state.withLock { Self.apply(change, to: &$0) }
      throw Self.lost(request)
    case .requestLost:
      throw Self.lost(request)
    case .delayed(let count):
      let due = count.map { request.index + max(1, $0) }
      state.withLock { $0.delayed.append(Delayed(request: request, change: change, due: due)) }
      throw Self.lost(request)
    case .refused(let code):
      throw Self.refusal(code, request)
    case .hang(let gate):
      // The caller cannot know that the request has not reached the store.
      guard await gate.pass() else { throw Self.cancelled(name, mayHaveHadEffect: true) }
    case .hangAfterEffect(let gate):
      let hasEffect = state.withLock { Self.apply(change, to: &$0) }
      guard await gate.pass() else { throw Self.cancelled(name, mayHaveHadEffect: true) }
      return hasEffect
    case .partial(let count):
      guard case .remove(let names) = change else { break }
      _ = state.withLock { Self.apply(.remove(Array(names.prefix(count))), to: &$0) }
      throw Self.lost(request)
    case nil, .torn, .stale: break
    }
    return state.withLock { Self.apply(change, to: &$0) }
  }

  /// Makes a request that changes nothing.
  private func read<Answer: Sendable>(
    _ verb: ObjectRequest.Verb, _ name: ObjectName,
    _ body: @Sendable (inout State, ObjectFault?) -> Answer
  ) async throws(ObjectStoreError) -> Answer {
    try Self.checkCancellation(name)
    let (request, fault) = begin(verb, name, sent: 0)
    switch fault {
    case .answerLost, .requestLost, .delayed:
      throw Self.refusal(.unavailable, request)
    case .refused(let code):
      throw Self.refusal(code, request)
    case .hang(let gate):
      guard await gate.pass() else { throw Self.cancelled(name, mayHaveHadEffect: false) }
    case .hangAfterEffect(let gate):
      let answer = state.withLock { body(&$0, fault) }
      guard await gate.pass() else { throw Self.cancelled(name, mayHaveHadEffect: false) }
      return answer
    case nil, .torn, .stale, .partial: break
    }
    return state.withLock { body(&$0, fault) }
  }

  /// Counts a request, delivers the delayed ones that are due, and asks the script.
  private func begin(
    _ verb: ObjectRequest.Verb, _ name: ObjectName, sent: Int
  ) -> (ObjectRequest, ObjectFault?) {
    state.withLock { state in
      let call = Call(verb: verb, object: name)
      let request = ObjectRequest(
        index: state.requestCount, verb: verb, object: name,
        repetition: state.calls[call, default: 0])
      state.requestCount += 1
      state.calls[call, default: 0] += 1
      state.trace.append(request)
      state.traffic.requests[verb, default: 0] += 1
      state.traffic.sentBytes += sent
      Self.deliver(&state) { delayed in delayed.due.map { $0 <= request.index } ?? false }
      return (request, state.script?(request))
    }
  }

  private static func deliver(_ state: inout State, _ isDue: (Delayed) -> Bool) {
    let due = state.delayed.filter(isDue)
    state.delayed.removeAll(where: isDue)
    for delayed in due { _ = apply(delayed.change, to: &state) }
  }

  /// - Returns: whether the change had an effect.
  private static func apply(_ change: Change, to state: inout State) -> Bool {
    switch change {
    case .create(let name, let bytes):
      if state.objects[name] != nil { return false }
      state.objects[name] = bytes
    case .put(let name, let bytes):
      state.objects[name] = bytes
    case .remove(let names):
      for name in names { state.objects[name] = nil }
    }
    return true
  }

  private static func bytes(
    of body: ObjectBody, for name: ObjectName
  ) throws(ObjectStoreError) -> [UInt8] {
    do throws(StoreError) { return try body.bytes } catch {
      let code: ObjectStoreError.Code = error.code == .cancelled ? .cancelled : .unreadableBody
      throw ObjectStoreError(code, error.message, object: name, mayHaveHadEffect: false)
    }
  }

  private static func checkCancellation(_ name: ObjectName) throws(ObjectStoreError) {
    if Task.isCancelled { throw cancelled(name, mayHaveHadEffect: false) }
  }

  private static func cancelled(_ name: ObjectName, mayHaveHadEffect: Bool) -> ObjectStoreError {
    ObjectStoreError(
      .cancelled, "the task was cancelled", object: name, mayHaveHadEffect: mayHaveHadEffect)
  }

  private static func lost(_ request: ObjectRequest) -> ObjectStoreError {
    ObjectStoreError(
      .unavailable, "no answer to the request \(request) (fault)", object: request.object,
      mayHaveHadEffect: true)
  }

  private static func refusal(
    _ code: ObjectStoreError.Code, _ request: ObjectRequest
  ) -> ObjectStoreError {
    ObjectStoreError(
      code, "the store refuses the request \(request) (fault)", object: request.object,
      mayHaveHadEffect: false)
  }
}
