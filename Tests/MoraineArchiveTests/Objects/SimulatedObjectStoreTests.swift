import MoraineArchive
import MoraineEngine
import MoraineTesting
import Testing

/// The simulated store of objects fails as it is asked to.
@Suite struct SimulatedObjectStoreTests {
  private let store = SimulatedObjectStore()
  private let name: ObjectName
  private let body = ObjectBody([1, 2, 3, 4])

  init() throws { name = try ObjectName("log/1") }

  private func error<Answer>(
    of request: () async throws(ObjectStoreError) -> Answer
  ) async throws -> ObjectStoreError {
    do throws(ObjectStoreError) { _ = try await request() } catch { return error }
    throw Missing()
  }

  private struct Missing: Error {}

  @Test func requestWithALostAnswerHasItsEffect() async throws {
    store.setScript { $0.index == 0 ? .answerLost : nil }
    let error = try await error { () throws(ObjectStoreError) in try await store.create(name, body)
    }
    #expect(error.code == .unavailable && error.mayHaveHadEffect && error.object == name)
    #expect(store.objects == [name: [1, 2, 3, 4]])
    #expect(try await store.create(name, body) == .exists)
  }

  @Test func lostRequestHasNoEffect() async throws {
    store.setScript { $0.index == 0 ? .requestLost : nil }
    let error = try await error { () throws(ObjectStoreError) in try await store.create(name, body)
    }
    #expect(error.code == .unavailable && error.mayHaveHadEffect)
    #expect(store.objects.isEmpty)
    #expect(try await store.create(name, body) == .created)
  }

  @Test func partialRemovalRemovesTheFirstObjectsAndIsUncertain() async throws {
    let names = try ["log/1", "log/2", "log/3"].map { try ObjectName($0) }
    for name in names { store[name] = [1] }
    store.setScript { $0.verb == .remove ? .partial(count: 2) : nil }
    let error = try await error { () throws(ObjectStoreError) in try await store.remove(names) }
    #expect(error.code == .unavailable && error.mayHaveHadEffect && error.object == names[0])
    #expect(store.objects == [names[2]: [1]])
  }

  @Test(arguments: [ObjectStoreError.Code.denied, .noSpace, .unavailable])
  func refusedRequestHasNoEffectAndSaysSo(code: ObjectStoreError.Code) async throws {
    store.setScript { _ in .refused(code) }
    for error in [
      try await error { () throws(ObjectStoreError) in try await store.create(name, body) },
      try await error { () throws(ObjectStoreError) in try await store.put(name, body) },
      try await error { () throws(ObjectStoreError) in try await store.remove([name]) },
      try await error { () throws(ObjectStoreError) in try await store.get(name, nil) },
    ] {
      #expect(error.code == code && !error.mayHaveHadEffect)
    }
    #expect(store.objects.isEmpty)
  }

  @Test func delayedRequestHasItsEffectWhenTheTestSaysSo() async throws {
    store.setScript { $0.index <= 1 ? .delayed(requests: nil) : nil }
    let second = try ObjectName("log/2")
    for name in [name, second] {
      let error = try await error { () throws(ObjectStoreError) in
        try await store.create(name, body)
      }
      #expect(error.mayHaveHadEffect)
    }
    #expect(try await store.get(name, nil) == nil)
    #expect(store.delayedRequests.map(\.object) == [name, second])
    #expect(try await store.create(second, ObjectBody([9])) == .created)
    store.deliverDelayed([0])
    #expect(store.objects == [name: [1, 2, 3, 4], second: [9]])
    store.deliverDelayed()
    #expect(store.objects[second] == [9], "a late request must not replace an object")
    #expect(store.delayedRequests.isEmpty)
  }

  @Test func delayedRequestsArriveInTheirOrderBeforeALaterRequest() async throws {
    store.setScript { $0.verb == .put ? .delayed(requests: 2) : nil }
    for byte: UInt8 in 1...2 {
      _ = try await error { () throws(ObjectStoreError) in
        try await store.put(name, ObjectBody([byte]))
      }
    }
    #expect(try await store.get(name, nil) == [1])
    #expect(try await store.get(name, nil) == [2])
  }

  @Test func droppedRequestNeverHasAnEffect() async throws {
    store.setScript { $0.index == 0 ? .delayed(requests: 1) : nil }
    _ = try await error { () throws(ObjectStoreError) in try await store.put(name, body) }
    store.dropDelayed()
    #expect(try await store.get(name, nil) == nil)
  }

  @Test func tornAnswerHasFewerBytes() async throws {
    store[name] = [1, 2, 3, 4]
    store.setScript { _ in .torn(lengthBytes: 2) }
    #expect(try await store.get(name, nil) == [1, 2])
    #expect(try await store.get(name, 1..<4) == [2, 3])
    #expect(try await store.get(name, 3..<4) == [4])
  }

  @Test func staleListHasTheNamesOfTheListBefore() async throws {
    let second = try ObjectName("log/2")
    store[name] = []
    #expect(try await store.list(under: .root, after: nil, limit: 9) == [name])
    try await store.remove([name])
    try await store.put(second, body)
    store.setScript { $0.index == 3 ? .stale : nil }
    #expect(try await store.list(under: .root, after: nil, limit: 9) == [name])
    #expect(try await store.list(under: .root, after: nil, limit: 9) == [second])
  }

  @Test func hangingRequestHasItsEffectOnlyAfterTheGate() async throws {
    let gate = RequestGate()
    store.setScript { $0.index == 0 ? .hang(gate) : nil }
    let task = Task { try await store.create(name, body) }
    await gate.arrival()
    #expect(try await store.create(name, ObjectBody([9])) == .created)
    gate.open()
    #expect(try await task.value == .exists)
    #expect(store.objects == [name: [9]])
  }

  @Test func heldAnswerComesAfterTheEffect() async throws {
    let gate = RequestGate()
    store.setScript { $0.index == 0 ? .hangAfterEffect(gate) : nil }
    let task = Task { try await store.create(name, body) }
    await gate.arrival()
    #expect(try await store.create(name, ObjectBody([9])) == .exists)
    gate.open()
    #expect(try await task.value == .created)
  }

  @Test(arguments: [false, true])
  func cancelledHangingRequestIsUncertain(hasEffect: Bool) async throws {
    let gate = RequestGate()
    store.setScript { _ in hasEffect ? .hangAfterEffect(gate) : .hang(gate) }
    let task = Task {
      await #expect(throws: ObjectStoreError.self) { try await store.put(name, body) }
    }
    await gate.arrival()
    task.cancel()
    let error = await task.value
    #expect(error?.code == .cancelled && error?.mayHaveHadEffect == true)
    #expect(store.objects.isEmpty == !hasEffect)
    let late = Task {
      await #expect(throws: ObjectStoreError.self) {
        withUnsafeCurrentTask { $0?.cancel() }
        try await store.put(name, body)
      }
    }
    #expect(await late.value?.mayHaveHadEffect == false, "the task was cancelled before")
  }

  @Test func trafficCountsRequestsAndBytes() async throws {
    _ = try await store.create(name, body)
    try await store.put(name, body)
    _ = try await store.get(name, 1..<3)
    _ = try await store.get(name, nil)
    try await store.remove([name])
    #expect(store.traffic.requests == [.create: 1, .put: 1, .get: 2, .remove: 1])
    #expect(store.traffic.requestCount == 5)
    #expect(store.traffic.sentBytes == 8)
    #expect(store.traffic.receivedBytes == 6)
    #expect(store.trace.map(\.repetition) == [0, 0, 0, 1, 0])
    store.clearTrace()
    #expect(store.traffic.requestCount == 0 && store.traffic.sentBytes == 0)
    #expect(store.trace.isEmpty)
    _ = try await store.get(name, nil)
    #expect(store.trace.map(\.index) == [5])
  }

  @Test func contentIsTakenAndPutBack() async throws {
    _ = try await store.create(name, body)
    let before = store.objects
    try await store.put(name, ObjectBody([]))
    store.objects = before
    #expect(try await store.get(name, nil) == [1, 2, 3, 4])
    #expect(SimulatedObjectStore(before).objects == before)
  }

  @Test func unreadableBodyIsNoRequest() async throws {
    let broken = ObjectBody(byteCount: 4) { _ throws(StoreError) in
      throw StoreError(.corrupted, "the segment is damaged")
    }
    let error = try await error { () throws(ObjectStoreError) in
      try await store.create(name, broken)
    }
    #expect(error.code == .unreadableBody && !error.mayHaveHadEffect)
    #expect(error.message == "the segment is damaged")
    #expect(store.trace.isEmpty)
  }

  /// The faults of a request depend on its object and repetition alone, in whatever order
  /// concurrent tasks make their requests.
  @Test func randomFaultsDoNotDependOnTheOrderOfRequests() async throws {
    func failures(_ order: [Int], seed: UInt64) async throws -> Set<Int> {
      let store = SimulatedObjectStore()
      store.setScript(ObjectFault.random(seed: seed, percent: 30, [.refused(.unavailable)]))
      var failed: Set<Int> = []
      for number in order {
        let name = try ObjectName("log/\(number)")
        do throws(ObjectStoreError) { try await store.put(name, body) } catch {
          failed.insert(number)
        }
      }
      return failed
    }
    let numbers = Array(0..<200)
    let failed = try await failures(numbers, seed: 1)
    #expect((30...90).contains(failed.count))
    #expect(try await failures(numbers.reversed(), seed: 1) == failed)
    #expect(try await failures(numbers, seed: 2) != failed)
  }
}
