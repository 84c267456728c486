import Foundation
import MoraineFormat
import Subprocess
import Testing

/// The codes that scripts rely on, one test for each code.
@Suite(.timeLimit(.minutes(10))) struct ExitCodeTests {
  let place: Place

  init() throws { place = try Place() }

  @Test func successExitsWith0() async throws {
    #expect(try await Moraine.run("put", place.store, "k", "v").code == 0)
    #expect(try await Moraine.run("get", place.store, "k").text == "v")
    #expect(try await Moraine.run("delete", place.store, "k").code == 0)
    #expect(try await Moraine.run("--help").text.contains("EXIT CODES"))
    #expect(try await Moraine.run("--version").text.first?.isNumber == true)
  }

  @Test func missingKeyExitsWith1() async throws {
    try await place.drive("put 6b 76")
    for command in ["get", "delete"] {
      let outcome = try await Moraine.run(command, place.store, "other")
      #expect(outcome.code == 1 && outcome.output.isEmpty && outcome.errors.isEmpty)
    }
  }

  @Test(arguments: [
    ["frobnicate"], ["compact"], ["get"], ["get", "D"], ["get", "D", "k", "more"],
    ["scan", "D", "--limit", "-1"], ["dump", "D", "--format", "xml"],
    ["load", "D", "--batch", "0"],
    ["drive", "D", "--segment-size", "255"], ["scan", "D", "--wrong"],
  ])
  func misuseExitsWith2(_ arguments: [String]) async throws {
    let outcome = try await Moraine.run(arguments)
    #expect(outcome.code == 2 && outcome.output.isEmpty && !outcome.errors.isEmpty)
  }

  @Test func pathWithoutAStoreExitsWith2() async throws {
    for command in ["scan", "dump", "stats", "verify"] {
      let outcome = try await Moraine.run(command, place.store)
      #expect(outcome.code == 2 && outcome.errors.contains(place.store))
    }
    #expect(try await Moraine.run("delete", place.store, "k").code == 2)
    #expect(!FileManager.default.fileExists(atPath: place.store))
  }

  @Test func argumentThatIsNotUTF8ExitsWith2() async throws {
    let script = #""$0" put "$1" "$(printf '\377')" v"#
    #expect(try await Moraine.shell(script, place.store).code == 2)
    #expect(!FileManager.default.fileExists(atPath: place.store), "no other key was stored")
  }

  @Test func oversizeKeyExitsWith2() async throws {
    let key = String(repeating: "k", count: StoreLimits.keyLengthBytes + 1)
    #expect(try await Moraine.run("put", place.store, key, "v").code == 2)
    #expect(try await Moraine.run("put", place.store, String(key.dropLast()), "v").code == 0)
  }

  @Test func damageExitsWith3() async throws {
    try await place.drive("put 6b \(String(repeating: "76", count: 999))")
    _ = try place.damage()
    for command in ["scan", "dump", "stats", "verify"] {
      let outcome = try await Moraine.run(command, place.store)
      #expect(outcome.code == 3 && outcome.errors.contains(".segment at byte"), "\(outcome)")
    }
    #expect(try await Moraine.run("get", place.store, "k").code == 3)
  }

  @Test func lockedStoreExitsWith4() async throws {
    let store = place.store
    let (codes, status) = try await place.talk { (talk) async throws in
      #expect(try await talk.ask("put 6b 76") == "ok 1")
      let put = try await Moraine.run("put", store, "k", "v")
      let drive = try await Moraine.run("drive", store)
      #expect(drive.text.hasPrefix("err locked ") && drive.lines.count == 2)
      #expect(try await talk.ask("close") == "ok")
      return [put.code, drive.code]
    }
    #expect(codes == [4, 4])
    #expect(status == .exited(0))
  }

  @Test func errorOfTheSystemExitsWith5() async throws {
    let store = place.store + String(repeating: "long", count: 100)
    let outcome = try await Moraine.run("put", store, "k", "v")
    #expect(outcome.code == 5 && outcome.errors.contains("File name too long"), "\(outcome)")
  }

  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
  func fullOutputExitsWith6() async throws {
    try await place.drive("put 6b 76")
    let outcome = try await Moraine.shell(#""$0" get "$1" k > /dev/full"#, place.store)
    #expect(outcome.code == 6 && outcome.errors.contains("No space left"))
  }

  /// Uses a small disk of its own, where the system permits one without being root.
  @Test func fullDiskExitsWith6() async throws {
    let script = #"""
      command -v unshare > /dev/null && unshare -rm true 2> /dev/null || { echo skipped; exit; }
      unshare -rm sh -c '
        mount -t tmpfs -o size=1m none "$1" || { echo skipped; exit; }
        head -c 2000000 /dev/urandom | "$0" put "$1/store" k
      ' "$0" "$1"
      """#
    let outcome = try await Moraine.shell(script, place.folder.path)
    if outcome.text == "skipped\n" { return }
    #expect(outcome.code == 6 && outcome.errors.hasPrefix("moraine: noSpace: "), "\(outcome)")
  }

  @Test func newerFormatExitsWith7() async throws {
    try await place.drive("put 6b 76")
    let url = URL(fileURLWithPath: place.store + "/MANIFEST")
    var bytes = [UInt8](try Data(contentsOf: url))
    bytes[8] = 2
    let body = bytes.dropLast(4)
    let checksum = Array(body).withUnsafeBytes { Checksum.of($0) }
    try Data(body + withUnsafeBytes(of: checksum.littleEndian) { Array($0) }).write(to: url)
    let picture = try place.picture()
    #expect(try await Moraine.run("get", place.store, "k").code == 7)
    #expect(try place.picture() == picture)
    let drive = try await Moraine.run("drive", place.store)
    #expect(drive.code == 7 && drive.text.hasPrefix("err newerFormat "))
  }
}
