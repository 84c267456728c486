import ArgumentParser
import Foundation
import MoraineTesting
import Synchronization
import SystemPackage

/// What a worker says of one piece of work.
struct UnitResult: Codable {
  var tally: CrashTally
  var violation: CrashViolation?
}

/// Tells the parent process now and then that the worker is alive.
final class Pulse: Sendable {
  private let last = Mutex(ContinuousClock.now)

  func beat() {
    let isDue = last.withLock { last in
      guard .now - last > .seconds(1) else { return false }
      last = .now
      return true
    }
    // A parent that is gone ends the worker by the end of its input.
    if isDue { do { try Output.line("alive"); try Output.flush() } catch {} }
  }
}

/// Does pieces of the laboratory's work in a process of its own, so that a trap or a hang ends
/// nothing else. Started by the other parts of crash-test.
struct LaboratoryWorker: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "worker", abstract: "Does the work for the others.", shouldDisplay: false)
  @Option var artifacts: String

  /// A terminal and `timeout` send them to the whole process group. The parent decides: when it
  /// ends, its workers do, and when it goes on, a worker that was ended must not look like one that
  /// trapped.
  static let ignoredSignals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

  func run() async throws {
    for signal in Self.ignoredSignals { Foundation.signal(signal, SIG_IGN) }
    let decoder = JSONDecoder()
    for await line in ParentPipe.lines() {
      let unit: LaboratoryUnit
      do { unit = try decoder.decode(LaboratoryUnit.self, from: Data(line.utf8)) } catch {
        throw Failure(code: 2, message: "'\(line)' is no piece of work: \(error)")
      }
      PlantedFailure.strike(unit)
      let pulse = Pulse()
      guard let (tally, found) = await unit.run(progress: { pulse.beat() }) else {
        throw Failure(code: 2, message: "no scenario is named '\(unit.scenario)'")
      }
      let violation = found.map { save($0, unit) }
      let answer = try JSONEncoder().encode(UnitResult(tally: tally, violation: violation))
      try Output.line("end " + String(decoding: answer, as: UTF8.self))
      try Output.flush()
    }
  }

  /// What was found counts, also where the disk cannot be kept.
  private func save(_ found: CrashViolation, _ unit: LaboratoryUnit) -> CrashViolation {
    guard let image = found.image else { return found }
    var violation = found
    do {
      // The parent of a new directory must be there.
      try FileManager.default.createDirectory(
        atPath: artifacts, withIntermediateDirectories: true)
      violation.imagePath = try image.save(in: place(unit)).first?.string
    } catch {
      violation.finding += "; the disk could not be saved in \(artifacts): \(error)"
    }
    return violation
  }

  /// A directory of its own: files of another disk would make it a third one.
  private func place(_ unit: LaboratoryUnit) -> FilePath {
    var name = "\(unit.kind.rawValue)-\(unit.scenario)-seed-\(unit.seed)"
    if unit.kind == .faults, unit.faults.isEmpty {
      name += "-effect-\(unit.effect)\(unit.isPermanent ? "-for-ever" : "")"
    }
    var place = FilePath(artifacts).appending(name)
    var number = 2
    while FileManager.default.fileExists(atPath: place.string) {
      place = FilePath(artifacts).appending("\(name)-\(number)")
      number += 1
    }
    return place
  }
}
