import MoraineEngine

/// A broken promise, found on one disk.
struct CrashFinding {
  let circumstances: String
  let finding: String
  let image: DiskImage
}

/// The identity of a judged disk: its files and the states that it may hold.
struct JudgedImage: Hashable {
  let image: DiskImage.Fingerprint
  let candidates: ClosedRange<Int>
}

extension CrashJudge {
  /// Judges the disks that a crash at a point can leave, and returns the first finding.
  ///
  /// - Parameter seen: the disks that were judged before and are skipped.
  func finding(
    at point: CrashPoint, _ seed: UInt64, _ laboratory: CrashLaboratory,
    _ seen: inout Set<JudgedImage>, _ tally: inout CrashTally
  ) async -> CrashFinding? {
    let base = seed &* 1_000_003 &+ UInt64(point.number) &* 64
    let images = point.moment.images(
      subsets: laboratory.subsetsPerPoint, torn: laboratory.tornPerPoint, seed: base)
    // An image larger than the disk cannot occur: a file system reuses the blocks of a removed file
    // only after the removal is durable.
    for (policy, image) in images where image.blockBytes <= scenario.capacityBytes {
      tally.images += 1
      let candidates = candidates(point, policy)
      let judged = JudgedImage(image: image.fingerprint, candidates: candidates)
      guard seen.insert(judged).inserted else { continue }
      tally.distinctImages += 1
      laboratory.onProgress?()
      let found = await finding(image, candidates, number: tally.distinctImages, &tally)
      if let found {
        return CrashFinding(circumstances: "\(policy)", finding: found, image: image)
      }
    }
    let period = laboratory.killPeriod
    guard period > 0, point.number.isMultiple(of: period) else { return nil }
    return await findingAfterKill(at: point, base, &tally)
  }

  /// Judges a process crash at the point, followed by a power failure: the next process opens the
  /// files in the cache, and then the machine dies. Changes that the first process did not make
  /// durable are still not durable.
  private func findingAfterKill(
    at point: CrashPoint, _ seed: UInt64, _ tally: inout CrashTally
  ) async -> CrashFinding? {
    let image = point.moment.image(.everything)
    func finding(_ text: String) -> CrashFinding {
      CrashFinding(circumstances: "the process killed", finding: text, image: image)
    }
    do {
      let disk = SimulatedDisk(point.moment, capacityBytes: scenario.capacityBytes)
      let recorder = CrashRecorder(CrashLedger())
      recorder.watch(disk)
      let store = try disk.openStore(configuration: scenario.configuration)
      let openingCount = recorder.points.count
      let state = try await store.contents()
      if let text = judge(state, candidates(point, .everything)) { return finding(text) }
      // The next process writes: it begins a segment, and replaces manifests, on top of the files
      // that the dead process left.
      let next = try await write(to: store, holding: state)
      disk.setObserver(nil)
      let points = recorder.points
      for later in points.prefix(openingCount) {
        let found = await findingAfterPowerFailure(
          self, later.moment, candidates(point, .nothing), seed, &tally)
        if let found { return found }
      }
      // A state that this process has returned must survive.
      let served = CrashJudge(
        scenario: scenario, model: ModelStore(state, then: next), nestingPeriod: 0)
      for later in points.dropFirst(openingCount) {
        let found = await findingAfterPowerFailure(served, later.moment, 0...1, seed, &tally)
        if let found { return found }
      }
      let found = await findingAfterPowerFailure(served, disk.moment(), 1...1, seed, &tally)
      try await store.close()
      return found
    } catch {
      if let error = error as? StoreError, error.code == .noSpace, scenario.capacityBytes < .max {
        return nil
      }
      return finding("the next process: \(error)")
    }
  }

  /// Writes a durable record, unless the disk is full.
  ///
  /// - Returns: the state that the store holds durably after the write.
  private func write(
    to store: Store, holding state: ModelStore.State
  ) async throws -> ModelStore.State {
    var state = state
    do throws(StoreError) {
      try await store.set([8], forKey: "next", durability: .sync)
      state["next"] = [8]
    } catch {
      guard error.code == .noSpace, scenario.capacityBytes < .max else { throw error }
    }
    return state
  }

  private func findingAfterPowerFailure(
    _ judge: CrashJudge, _ moment: DiskMoment, _ candidates: ClosedRange<Int>, _ seed: UInt64,
    _ tally: inout CrashTally
  ) async -> CrashFinding? {
    var seen: Set<DiskImage.Fingerprint> = []
    for (policy, image) in moment.images(subsets: 8, torn: 2, seed: seed)
    where image.blockBytes <= scenario.capacityBytes {
      guard seen.insert(image.fingerprint).inserted else { continue }
      tally.nestedImages += 1
      let found = await judge.finding(image, candidates, number: 1, depth: 0, &tally)
      guard let found else { continue }
      return CrashFinding(
        circumstances: "the process killed, opened by the next, then the machine: \(policy)",
        finding: found, image: image)
    }
    return nil
  }
}
