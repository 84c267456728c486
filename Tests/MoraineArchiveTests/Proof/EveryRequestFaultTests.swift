import Foundation
import MoraineArchive
import MoraineEngine
import MoraineTesting
import Testing

/// A fault at each request of each scenario: once, and from there on for ever.
///
/// `MORAINE_ARCHIVE_FAULTS` is the share of requests that are tried: every third one by default, 1
/// for all.
@Suite(.timeLimit(.minutes(10))) struct EveryRequestFaultTests {
  enum Fault: String, CaseIterable {
    case lostAnswer, lostRequest, late, lateAfterTheNextWriter, refused, cutBody, partOfARemoval

    var fault: ObjectFault {
      switch self {
      case .lostAnswer: .answerLost
      case .lostRequest: .requestLost
      case .late: .delayed(requests: 2)
      case .lateAfterTheNextWriter: .delayed(requests: nil)
      case .refused: .refused(.unavailable)
      case .cutBody: .torn(lengthBytes: 40)
      case .partOfARemoval: .partial(count: 1)
      }
    }
  }

  /// The requests of the steps after `prepare` get the faults.
  enum Scenario: String, CaseIterable {
    case attach, ship, rotate, compact, checkpoint, gap, clean, restart, copy, restore, restorePoint
    case restoredStore, detach

    func prepare(_ run: FaultRun) async throws(ArchiveError) {
      try await run.write(5)
      if self == .attach { return }
      try await run.attach()
      try await run.write(10)
      try await run.flush()
      switch self {
      case .clean, .restore, .restorePoint, .restoredStore:
        try await run.checkpoint()
        try await run.write(30)
        try await run.flush()
        try await run.checkpoint()
        try await run.write(10)
        try await run.flush()
      case .checkpoint:
        try await run.write(60)
        try await run.compact()
      case .restart: try await run.reopen()
      default: break
      }
    }

    func act(_ run: FaultRun) async throws(ArchiveError) {
      switch self {
      case .attach, .restart:
        try await run.attach()
        try await run.write(5)
        try await run.flush()
      case .ship:
        try await run.write(40)
        try await run.flush()
        try await run.write(2)
        try await run.flush()
      case .rotate:
        for _ in 0..<3 {
          try await run.write(50)
          try await run.flush()
        }
      case .compact:
        try await run.write(60)
        try await run.compact()
        try await run.flush()
      case .checkpoint:
        try await run.checkpoint()
        try await run.write(5)
        try await run.checkpoint()
      case .gap:
        try await run.write(200)
        try await run.compact()
        try await run.write(200)
        try await run.compact()
        try await run.flush()
      case .clean:
        try await run.clean()
        try await run.write(5)
        try await run.flush()
      case .copy: try await goOnWithACopy(run)
      case .restore: try await run.restored(.latest)
      case .restorePoint: try await run.restored(.sequence(run.acknowledged))
      case .restoredStore:
        try await run.switchToRestored(.latest)
        try await run.write(5)
        try await run.attach()
        try await run.write(5)
        try await run.flush()
      case .detach: try await run.detach()
      }
    }

    /// Both copies write, and the earlier one is fenced.
    private func goOnWithACopy(_ run: FaultRun) async throws(ArchiveError) {
      let earlier = try await run.switchToCopy()
      try await run.write(5)
      try await run.attach()
      do throws(ArchiveError) {
        try await earlier?.flush()
        await earlier?.abandon()
      } catch {
        await earlier?.abandon()
        if error.code != .fenced { throw error }
      }
      try await run.flush()
    }
  }

  private static func newRun(_ scenario: Scenario) throws -> FaultRun {
    try FaultRun(heldBytesLimit: scenario == .gap ? 5000 : 1 << 20)
  }

  private static var step: Int {
    ProcessInfo.processInfo.environment["MORAINE_ARCHIVE_FAULTS"].flatMap { Int($0) } ?? 3
  }

  @Test(arguments: Scenario.allCases)
  func nothingAcknowledgedIsLostAndTheArchiveGoesOn(_ scenario: Scenario) async throws {
    let clean = try Self.newRun(scenario)
    try await scenario.prepare(clean)
    let first = clean.bench.objects.traffic.requestCount
    try await scenario.act(clean)
    let last = clean.bench.objects.traffic.requestCount
    try await clean.recover(restarts: true)
    #expect(last > first)
    var strikes = 0
    for (kind, fault) in Fault.allCases.enumerated() {
      // Only a cleaning removes objects.
      if fault == .partOfARemoval, scenario != .clean { continue }
      for isForEver in [false, true] {
        let offset = (kind + (isForEver ? 1 : 0)) % Self.step
        for index in stride(from: first + offset, to: last, by: Self.step) {
          try await strike(scenario, fault, at: index, isForEver)
          strikes += 1
        }
      }
    }
    print("\(scenario): \(last - first) requests, \(strikes) faults")
  }

  private func strike(
    _ scenario: Scenario, _ fault: Fault, at index: Int, _ isForEver: Bool
  ) async throws {
    let run = try Self.newRun(scenario)
    try await scenario.prepare(run)
    let struck = fault.fault
    run.bench.objects.setScript { request in
      request.index == index || isForEver && request.index > index ? struck : nil
    }
    let place = "\(scenario), \(fault) at request \(index)\(isForEver ? " for ever" : "")"
    do throws(ArchiveError) {
      try await scenario.act(run)
    } catch {
      #expect(
        [.unavailable, .damaged, .unsupportedStore, .stateUnavailable].contains(error.code),
        "\(place): \(error)")
    }
    do {
      try await run.recover(restarts: (index + (isForEver ? 1 : 0)) % 2 == 0)
    } catch {
      Issue.record("\(place): \(error)")
    }
  }
}
