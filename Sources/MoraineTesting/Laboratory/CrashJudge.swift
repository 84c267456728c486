import MoraineEngine

/// Opens a disk that a crash left, and compares the store with the promises.
struct CrashJudge {
  let scenario: CrashScenario
  let model: ModelStore
  /// Period of the images at which another crash occurs during recovery; 0 for none.
  let nestingPeriod: Int
  /// Images after a crash during recovery that were judged before.
  var nestedImages = NestedImages()

  /// Indices in the model of the states that the store may hold after a crash at a point.
  func candidates(_ point: CrashPoint, _ policy: CrashPolicy) -> ClosedRange<Int> {
    let promised = policy == .everything ? point.before.acknowledged : point.before.durable
    let least = model.index(atLeast: promised)
    return least...max(least, min(Int(point.after.begun), model.states.count - 1))
  }

  /// Opens an image, compares its state, writes, closes and opens it again. For some images, also
  /// tries further crashes during recovery.
  ///
  /// - Parameters:
  ///   - candidates: the allowed states, as indices in the model.
  ///   - number: the number of the image; multiples of ``nestingPeriod`` get further crashes.
  ///   - depth: the maximum number of further crashes, each during the recovery from the previous.
  /// - Returns: a description of the broken promise; nil when there is none.
  func finding(
    _ image: DiskImage, _ candidates: ClosedRange<Int>, number: Int, depth: Int = 2,
    _ tally: inout CrashTally
  ) async -> String? {
    var stage = "opening it"
    do {
      let isNested = nestingPeriod > 0 && depth > 0 && number.isMultiple(of: nestingPeriod)
      let disk = disk(image)
      let recorder = CrashRecorder(CrashLedger())
      if isNested { recorder.watch(disk) }
      let store = try disk.openStore(configuration: scenario.configuration)
      disk.setObserver(nil)
      stage = "reading it"
      let state = try await store.contents()
      if let finding = judge(state, candidates) { return finding }
      if let finding = try await judgeAsWhole(store, state) { return finding }
      // A state that the store has returned must survive, also a crash during recovery.
      if isNested {
        for point in recorder.points + [CrashPoint(disk.moment())] {
          if let finding = await nested(point.moment, state, number, depth, &tally) {
            return "after another crash during recovery: \(finding)"
          }
        }
      }
      return try await goOn(store, disk, state, &stage)
    } catch {
      return "\(stage): \(error)"
    }
  }

  private func disk(_ image: DiskImage) -> SimulatedDisk {
    SimulatedDisk(image, capacityBytes: scenario.capacityBytes)
  }

  func judge(_ state: ModelStore.State, _ candidates: ClosedRange<Int>) -> String? {
    if model.states[candidates].contains(state) { return nil }
    let wanted = model.states[candidates.lowerBound]
    if let older = model.states[..<candidates.lowerBound].lastIndex(of: state) {
      return "it is back at step \(older) of \(candidates.lowerBound) that were promised: "
        + "\(StateDifference(state, wanted))"
    }
    if let newer = model.states[(candidates.upperBound + 1)...].firstIndex(of: state) {
      return "it is at step \(newer), of which \(candidates.upperBound) were begun"
    }
    return "it is no prefix of what was written: \(StateDifference(state, wanted))"
  }

  private func judgeAsWhole(
    _ store: Store, _ state: ModelStore.State
  ) async throws -> String? {
    let count = try await store.count()
    if count != state.count { return "it counts \(count) keys and lists \(state.count)" }
    let report = try await store.verify()
    return report.isSound ? nil : "verify finds \(report.problems)"
  }

  private func nested(
    _ moment: DiskMoment, _ state: ModelStore.State, _ number: Int, _ depth: Int,
    _ tally: inout CrashTally
  ) async -> String? {
    let seed = UInt64(number)
    for (policy, image) in moment.images(subsets: 8, torn: 2, seed: seed)
    where image.blockBytes <= scenario.capacityBytes {
      guard nestedImages.insert(image, state, depth: depth) else { continue }
      tally.nestedImages += 1
      var again = CrashJudge(
        scenario: scenario, model: ModelStore(only: state), nestingPeriod: nestingPeriod)
      again.nestedImages = nestedImages
      let finding = await again.finding(
        image, 0...0, number: tally.nestedImages, depth: depth - 1, &tally)
      if let finding { return "\(policy): \(finding)" }
    }
    return nil
  }

  /// Writes to the recovered store, and opens it again after a power failure and after a close.
  /// Some engines have lost data only then.
  private func goOn(
    _ store: Store, _ disk: SimulatedDisk, _ state: ModelStore.State, _ stage: inout String
  ) async throws -> String? {
    var expected = state
    stage = "writing after recovery"
    do {
      try await store.set([9], forKey: "after", durability: .sync)
      expected["after"] = [9]
    } catch {
      guard error.code == .noSpace, scenario.capacityBytes < .max else { throw error }
    }
    stage = "after recovery, a write and a power failure"
    if let finding = try await crash(disk, expected) { return finding }
    stage = "closing after recovery"
    do { try await store.close() } catch {
      guard error.code == .noSpace, scenario.capacityBytes < .max else { throw error }
    }
    if let finding = disk.trespass(beside: "store") { return finding }
    stage = "after recovery, a write and closing"
    let again = try disk.openStore(configuration: scenario.configuration)
    let found = try await again.contents()
    try await again.close()
    if found == expected { return nil }
    return "written to after recovery, and opened again: \(StateDifference(found, expected))"
  }

  /// Checks that a power failure keeps the durable writes that followed the recovery.
  private func crash(
    _ disk: SimulatedDisk, _ expected: ModelStore.State
  ) async throws -> String? {
    let image = disk.image(.nothing)
    guard image.blockBytes <= scenario.capacityBytes else { return nil }
    let survivor = try self.disk(image).openStore(configuration: scenario.configuration)
    let left = try await survivor.contents()
    if left == expected { return nil }
    return "written to after recovery, and crashed: \(StateDifference(left, expected))"
  }
}

extension CrashPoint {
  /// Creates a crash point at which nothing is promised.
  init(_ moment: DiskMoment) {
    self.init(
      number: 0, moment: moment, step: 0, before: CrashLedger.Counts(),
      after: CrashLedger.Counts())
  }
}
