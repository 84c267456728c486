import MoraineArchive
import MoraineTesting
import Synchronization
import Testing

/// The check of a store of objects accepts correct stores and refuses all others with a reason.
@Suite struct ObjectStoreProbeTests {
  private func check(
    _ store: any ObjectStore, seed: UInt64 = 1, width: Int = 16
  ) async throws(ArchiveError) {
    var generator = SeededGenerator(seed: seed)
    let root = try ObjectName("users/archive")
    try await ObjectStoreProbe(store, under: root, width: width).run(using: &generator)
  }

  /// The error with which a store is refused.
  private func refusal(of store: any ObjectStore) async -> ArchiveError? {
    do throws(ArchiveError) {
      try await check(store)
      return nil
    } catch { return error }
  }

  @Test(arguments: [2, 3, 16, 40])
  func correctStoreIsAcceptedAndLeftAsItWas(width: Int) async throws {
    let other = try ObjectName("users/other")
    let store = SimulatedObjectStore([other: [1, 2, 3]])
    try await check(store, width: width)
    #expect(store.objects == [other: [1, 2, 3]])
    #expect(store.traffic.requests[.create] == width + 2)
    #expect(store.traffic.requests[.list] == nil, "no decision depends on a list")
  }

  @Test(arguments: [Defect.ignoresCondition, .ignoresConditionSilently, .invertsCondition])
  func checkOfCreationsTakesSixRequestsAndRefusesAStoreThatReplaces(defect: Defect) async throws {
    let store = SimulatedObjectStore()
    var generator = SeededGenerator(seed: 1)
    let root = try ObjectName("users/archive")
    try await ObjectStoreProbe(store, under: root).run(.creations, using: &generator)
    #expect(store.trace.count == 6 && store.objects.isEmpty)
    let defective = ObjectStoreProbe(DefectiveObjectStore(defect), under: root)
    let error = await #expect(throws: ArchiveError.self) {
      var generator = SeededGenerator(seed: 2)
      try await defective.run(.creations, using: &generator)
    }
    #expect(error?.code == .unsupportedStore)
  }

  /// Requests that open their connections one after the other do not race.
  @Test func connectionsExistWhenTheRaceBegins() async throws {
    let store = SimulatedObjectStore()
    try await check(store)
    let creations = Dictionary(grouping: store.trace.filter { $0.verb == .create }, by: \.object)
    let race = try #require(creations.values.first { $0.count == 16 }?.map(\.index).min())
    #expect(store.trace.count { $0.verb == .get && $0.index < race } >= 16)
  }

  @Test func seedDeterminesNames() async throws {
    var names: [Set<ObjectName>] = []
    for seed: UInt64 in [7, 7, 8] {
      let store = SimulatedObjectStore()
      try await check(store, seed: seed)
      names.append(Set(store.trace.map(\.object)))
    }
    #expect(names[0] == names[1])
    #expect(names[0].isDisjoint(with: names[2]))
    #expect(names[0].allSatisfy { $0.text.hasPrefix("users/archive/probe/") })
  }

  @Test(arguments: Defect.allCases)
  func storeThatBreaksAPromiseIsRefusedWithAReason(defect: Defect) async throws {
    let store = DefectiveObjectStore(defect)
    let error = try #require(await refusal(of: store), "\(defect) was accepted")
    #expect(error.code == .unsupportedStore)
    #expect(error.message.contains(defect.reason), "\(error.message)")
    #expect(error.message.contains("Likely causes: "))
    #expect(error.underlying?.code == .unsupported)
    #expect(error.object != nil)
    if defect != .keepsRemoved {
      #expect(store.base.objects.isEmpty, "the objects of the check were not removed")
    }
  }

  /// Each request fails once, in each way that has no or an unknown effect.
  @Test func errorsOfRequestsArePassedOn() async throws {
    let plain = SimulatedObjectStore()
    try await check(plain, width: 2)
    let requestCount = plain.trace.count
    for number in 0..<requestCount {
      for (fault, code) in [
        (ObjectFault.refused(.denied), ObjectStoreError.Code.denied),
        (.refused(.noSpace), .noSpace), (.requestLost, .unavailable), (.answerLost, .unavailable),
      ] {
        let store = SimulatedObjectStore()
        store.setScript { $0.index == number ? fault : nil }
        let error = await #expect(throws: ArchiveError.self) { try await check(store, width: 2) }
        #expect(error?.code == .unavailable, "request \(number)")
        #expect(error?.underlying?.code == code, "request \(number)")
        #expect(store.objects.isEmpty, "request \(number): \(store.objects.keys)")
      }
    }
  }

  /// A store may repeat a request by itself, find its own object and report that it exists.
  @Test func objectOfARepeatedRequestIsNoReasonToRefuse() async throws {
    for repeated in 0...1 {
      let store = RepeatingObjectStore { request in
        request.verb == .create && (repeated == 0 ? request.index == 1 : request.index > 6)
      }
      try await check(store)
      #expect(store.repetitionCount > 0)
    }
  }

  @Test func cancelledCheckReportsTheCancellation() async throws {
    let gate = RequestGate()
    let store = SimulatedObjectStore()
    store.setScript { $0.verb == .put ? .hang(gate) : nil }
    let task = Task { await refusal(of: store) }
    await gate.arrival()
    task.cancel()
    #expect(await task.value?.code == .cancelled)
  }
}

/// A promise that a store of objects breaks.
enum Defect: CaseIterable {
  case ignoresCondition, ignoresConditionSilently, invertsCondition, lastWriterWins,
    lastWriterWinsSilently, emptyInsteadOfAbsent, losesWrites, losesReplacements, staleReads,
    ignoresRanges, keepsRemoved

  /// A part of the sentence with which the store is refused.
  var reason: String {
    switch self {
    case .ignoresCondition, .ignoresConditionSilently: "it replaced an object"
    case .invertsCondition: "under a name that was never written"
    case .lastWriterWins: "it let 16 of 16 concurrent requests create one name"
    case .lastWriterWinsSilently: "the bytes of a request that it had refused"
    case .emptyInsteadOfAbsent: "it returned an empty object for a name that was never written"
    case .losesWrites: "it returned no object right after it had created an object of 32 bytes"
    case .losesReplacements: "right after other bytes were written"
    case .staleReads: "it returned no object right after it had created"
    case .ignoresRanges: "it returned an object of 32 bytes for a range of 12 bytes"
    case .keepsRemoved: "after the object was removed"
    }
  }
}

/// A store of objects with a defect.
final class DefectiveObjectStore: ObjectStore {
  let base = SimulatedObjectStore()
  private let defect: Defect
  /// Numbers of requests to create each name, and the names that were read.
  private let state = Mutex((creations: [ObjectName: Int](), read: Set<ObjectName>()))

  init(_ defect: Defect) { self.defect = defect }

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    let earlier = state.withLock { state in
      defer { state.creations[name, default: 0] += 1 }
      return state.creations[name, default: 0]
    }
    switch defect {
    case .ignoresCondition, .ignoresConditionSilently:
      let exists = base[name] != nil
      try await base.put(name, body)
      return exists && defect == .ignoresConditionSilently ? .exists : .created
    case .invertsCondition:
      guard base[name] != nil else { return .exists }
      try await base.put(name, body)
      return .created
    // Requests that race for a name that was not read yet: all find it free, the last one wins.
    case .lastWriterWins where !state.withLock({ $0.read.contains(name) }):
      try await base.put(name, body)
      return .created
    case .lastWriterWinsSilently where !state.withLock({ $0.read.contains(name) }):
      try await base.put(name, body)
      return earlier == 0 ? .created : .exists
    case .losesWrites: return .created
    default: return try await base.create(name, body)
    }
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    if defect != .losesReplacements { try await base.put(name, body) }
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    let isFirst = state.withLock { $0.read.insert(name).inserted }
    if defect == .staleReads, !isFirst, state.withLock({ $0.creations[name] }) == 1 { return nil }
    let bytes = try await base.get(name, defect == .ignoresRanges ? nil : range)
    return bytes ?? (defect == .emptyInsteadOfAbsent ? [] : nil)
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) {
    if defect != .keepsRemoved { try await base.remove(names) }
  }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await base.list(under: prefix, after: last, limit: limit)
  }
}

/// A store of objects that loses answers and then repeats the request by itself.
final class RepeatingObjectStore: ObjectStore {
  let base = SimulatedObjectStore()
  private let repetitions = Atomic(0)

  var repetitionCount: Int { repetitions.load(ordering: .relaxed) }

  /// - Parameter isLost: selects the requests whose answers are lost.
  init(_ isLost: @escaping @Sendable (ObjectRequest) -> Bool) {
    base.setScript { request in
      isLost(request) && request.repetition % 2 == 0 ? .answerLost : nil
    }
  }

  func create(
    _ name: ObjectName, _ body: ObjectBody
  ) async throws(ObjectStoreError) -> ObjectCreation {
    do throws(ObjectStoreError) { return try await base.create(name, body) } catch {
      guard error.mayHaveHadEffect else { throw error }
      repetitions.add(1, ordering: .relaxed)
      return try await create(name, body)
    }
  }

  func put(_ name: ObjectName, _ body: ObjectBody) async throws(ObjectStoreError) {
    try await base.put(name, body)
  }

  func get(_ name: ObjectName, _ range: Range<Int>?) async throws(ObjectStoreError) -> [UInt8]? {
    try await base.get(name, range)
  }

  func remove(_ names: [ObjectName]) async throws(ObjectStoreError) { try await base.remove(names) }

  func list(
    under prefix: ObjectName, after last: ObjectName?, limit: Int
  ) async throws(ObjectStoreError) -> [ObjectName] {
    try await base.list(under: prefix, after: last, limit: limit)
  }
}
