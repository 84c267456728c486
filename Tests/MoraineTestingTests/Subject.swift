import Foundation
import MoraineTesting
import SystemPackage
import Testing

/// A small shell program under test. `$1` is its folder.
struct Subject {
  /// Answers `add N` and `list`, and keeps everything that it acknowledged: one write puts each
  /// number into the file before the answer.
  static let good = Subject(add: #"echo "$number" >> "$1/log"; echo ok"#)

  /// Runs at the start.
  var start = ""
  /// Runs for `add`; `$number` is the number to add, and `$count` counts from 1 in each process.
  var add: String
  /// Runs at the end of the input.
  var end = ""

  private var text: String {
    #"""
    : >> "$1/log"
    \#(start)
    count=0
    while read -r command number; do
      case $command in
        add) count=$((count + 1)); \#(add);;
        list) echo $(cat "$1/log");;
      esac
    done
    \#(end)
    """#
  }

  /// Runs the program under the harness in a folder of its own.
  func run(
    kills: Int = 8, seed: UInt64 = 1, adjust: (inout KillHarness) -> Void = { _ in }
  ) async throws(KillFailure) -> KillReport {
    try await Self.run(text, CountingScript(), kills: kills, seed: seed, adjust: adjust)
  }

  static func run<Script: KillScript>(
    _ text: String, _ script: Script, kills: Int, seed: UInt64,
    adjust: (inout KillHarness) -> Void = { _ in }
  ) async throws(KillFailure) -> KillReport {
    let place = FileManager.default.temporaryDirectory
      .appendingPathComponent("moraine-kill-\(UUID().uuidString)").path
    defer {
      do { try FileManager.default.removeItem(atPath: place) } catch { print("left: \(place)") }
    }
    var harness = KillHarness(executable: "/bin/sh", directory: FilePath(place), seed: seed) {
      ["-c", text, "subject", $0.string]
    }
    harness.timeoutMilliseconds = 120_000
    harness.timing.answers = 0...20
    adjust(&harness)
    return try await harness.run(script, kills: kills)
  }

  /// Returns the failure that the harness finds.
  func failure(
    kills: Int = 8, adjust: (inout KillHarness) -> Void = { _ in }
  ) async throws -> KillFailure {
    let report: KillReport
    do { report = try await run(kills: kills, adjust: adjust) } catch { return error }
    throw Unnoticed(report: report)
  }

  struct Unnoticed: Error { let report: KillReport }
}
