import MoraineFormat
import MoraineStorage
import SystemPackage
import Testing

@testable import MoraineEngine
@testable import MoraineTesting

/// Two processes share a store; one is killed at a call, the other continues, and then the power
/// fails.
@Suite(.timeLimit(.minutes(10))) struct SharedCrashTests {
  private typealias State = ModelStore.State

  private static func configuration(_ mode: Store.Configuration.IOMode) -> Store.Configuration {
    var configuration = Store.Configuration.shared(mode, segmentSizeBytes: 400)
    configuration.compaction = .manual
    return configuration
  }

  /// The operations that the victim has begun, and the answers that it got.
  private struct History {
    var states: [State] = [[:]]
    var acknowledged = 0
    var durable = 0
  }

  private static func work(_ store: Store, _ history: inout History) async throws(StoreError) {
    for number in 0..<14 {
      let key = Key("\(number % 4)")
      let value = [UInt8](repeating: UInt8(number), count: 50)
      let isDurable = number % 5 == 4
      var next = history.states[history.states.count - 1]
      next[key] = value
      history.states.append(next)
      try await store.set(value, forKey: key, durability: isDurable ? .sync : Durability.none)
      history.acknowledged = history.states.count - 1
      if isDurable { history.durable = history.acknowledged }
      if number == 9 { try await store.compact() }
    }
  }

  @Test(arguments: SharedStoreTests.modes)
  func theSurvivorLosesNothingToAPowerFailure(mode: Store.Configuration.IOMode) async throws {
    var callCount = 1
    var deathCount = 0
    // Every call is the last call of some run.
    while try await run(mode, killedAt: callCount, &deathCount) { callCount += 3 }
    #expect(deathCount > 20)
  }

  /// - Returns: whether the victim reached the call.
  private func run(
    _ mode: Store.Configuration.IOMode, killedAt place: Int, _ deathCount: inout Int
  ) async throws -> Bool {
    let configuration = Self.configuration(mode)
    let disk = SimulatedDisk()
    let process = FaultStorage(disk)
    let survivor = try Store(on: disk, at: "store", configuration: configuration)
    try await survivor.set([1], forKey: "first", durability: .sync)
    var history = History()
    history.states = [["first": [1]]]
    let victim = try Store(on: process, at: "store", configuration: configuration)
    process.clearTrace()
    // No call of a dead process reaches the disk.
    process.setScript { $0.index >= place ? .fail(.ioError) : nil }
    var isKilled = false
    do throws(StoreError) { try await Self.work(victim, &history) } catch { isKilled = true }
    guard isKilled else {
      // The call would come when the victim closes the store.
      process.setScript(nil)
      do throws(StoreError) { try await victim.close() } catch { #expect(error.code == .poisoned) }
      try await survivor.close()
      return false
    }
    deathCount += 1
    // The victim recorded its failure in the shared memory; a process that is killed cannot do
    // that.
    await survivor.forgetPoison()
    let moments = Moments()
    disk.setObserver { [unowned disk] in moments.append(disk.moment()) }
    let served = try await survivor.contents()
    let words = "killed at call \(place) of the victim"
    let comment = Comment(rawValue: words)
    #expect(history.states[history.acknowledged...].contains(served), comment)
    try await survivor.set([2], forKey: "second", durability: .sync)
    disk.setObserver(nil)
    let last = try await survivor.contents()
    let expected = history.states.map { state in
      var state = state
      state["second"] = [2]
      return state
    }
    #expect(expected[history.acknowledged...].contains(last), comment)
    let during = Array(history.states[history.durable...]) + [last]
    for (number, moment) in moments.all.enumerated() {
      try await judge(moment, during, configuration, "\(words), moment \(number)")
    }
    try await judge(disk.moment(), [last], configuration, "\(words), in the end")
    try await survivor.close()
    withExtendedLifetime(victim) {}
    return true
  }

  private func judge(
    _ moment: DiskMoment, _ states: [State], _ configuration: Store.Configuration, _ words: String
  ) async throws {
    for (policy, image) in moment.images(subsets: 2, torn: 1, seed: 1) {
      let store = try SimulatedDisk(image).openStore(configuration: configuration)
      let found = try await store.contents()
      #expect(states.contains(found), "\(words), \(policy): \(found.keys)")
      try await store.close()
    }
  }
}

extension Store {
  fileprivate func forgetPoison() { engine?.log.link?.page.store(0, .poison) }
}
