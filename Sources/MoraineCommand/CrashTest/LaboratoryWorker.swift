import ArgumentParser
import Foundation
import MoraineTesting
import Synchronization
import SystemPackage

/// The answer of a worker about one unit of work.
struct UnitResult: Codable {
  var tally: CrashTally
  var violation: CrashViolation?
}

/// Shows the parent process, at most once a second, that the worker is alive.
final class Pulse: Sendable {
  private let last = Mutex(ContinuousClock.now)

  func beat() {
    let isDue = last.withLock { last in
      guard .now - last > .seconds(1) else { return false }
      last = .now
      return true
    }
    // If the parent has ended, this write fails, and the end of the input ends the worker.
    if isDue { do { try Output.line("alive"); try Output.flush() } catch {} }
  }
}

/// Runs units of the laboratory in a separate process, so that a trap or a hang ends nothing else.
/// The other subcommands of crash-test start it.
struct LaboratoryWorker: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "worker", abstract: "Runs units of work for the other subcommands.",
    shouldDisplay: false)
  @Option var artifacts: String

  /// Signals that a terminal and `timeout` send to the whole process group. A worker ignores them:
  /// it ends when its parent ends, and while the parent runs, a worker that a signal ended must not
  /// look like one that trapped.
  static let ignoredSignals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

  func run() async throws {
    for signal in Self.ignoredSignals { Foundation.signal(signal, SIG_IGN) }
    let decoder = JSONDecoder()
    for await line in ParentPipe.lines() {
      let unit: LaboratoryUnit
      do { unit = try decoder.decode(LaboratoryUnit.self, from: Data(line.utf8)) } catch {
        throw Failure(code: 2, message: "'\(line)' is no unit of work: \(error)")
      }
      PlantedFailure.strike(unit)
      let pulse = Pulse()
      guard let (tally, found) = await unit.run(onProgress: { pulse.beat() }) else {
        throw Failure(code: 2, message: "no scenario is named '\(unit.scenario)'")
      }
      let violation = found.map { save($0, unit) }
      let answer = try JSONEncoder().encode(UnitResult(tally: tally, violation: violation))
      try Output.line("end " + String(decoding: answer, as: UTF8.self))
      try Output.flush()
    }
  }

  /// Saves the disk of a violation. If the disk cannot be saved, the violation is reported without
  /// it.
  private func save(_ found: CrashViolation, _ unit: LaboratoryUnit) -> CrashViolation {
    guard let image = found.image else { return found }
    var violation = found
    do {
      // The parent of a new directory must exist.
      try FileManager.default.createDirectory(
        atPath: artifacts, withIntermediateDirectories: true)
      violation.imagePath = try image.save(in: place(unit)).first?.string
    } catch {
      violation.finding += "; the disk could not be saved in \(artifacts): \(error)"
    }
    return violation
  }

  /// Returns a new directory for the disk: it must not mix with the files of another disk.
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
