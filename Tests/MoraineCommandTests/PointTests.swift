import Foundation
import Testing

/// put, get and delete.
@Suite struct PointTests {
  let place: Place

  init() throws { place = try Place() }

  @Test(arguments: [["-"], []])
  func anyBytesGoThroughStandardInput(_ value: [String]) async throws {
    let bytes = (0...255).map { UInt8($0) } + [0, 10, 13, 10]
    let put = ["put", place.store, "k"] + value
    #expect(try await Moraine.run(put, input: bytes).code == 0)
    let outcome = try await Moraine.run("get", place.store, "k")
    #expect(outcome.output == bytes && outcome.errors.isEmpty)
  }

  @Test func emptyKeyAndEmptyValueAreStored() async throws {
    #expect(try await Moraine.run("put", place.store, "k", input: "").code == 0)
    #expect(try await Moraine.run("put", place.store, "", "of the empty key").code == 0)
    let outcome = try await Moraine.run("get", place.store, "k")
    #expect(outcome.code == 0 && outcome.output.isEmpty)
    #expect(try await Moraine.run("get", place.store, "").text == "of the empty key")
  }

  /// Regression: a variable of the shell that was not set made a store in the current directory.
  @Test(arguments: [
    #"put "" k v"#, #"backup store """#, #"restore store """#, #"restore "" new"#,
    #"follow file:archive """#, #"promote "" file:archive"#, #"doctor store --salvage """#,
  ])
  func emptyPathIsRefused(arguments: String) async throws {
    let script = #"cd "$1" && exec "$0" "# + arguments
    let outcome = try await Moraine.shell(script, place.folder.path)
    #expect(outcome.code == 2 && outcome.errors.contains("directory is empty;"), "\(outcome)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.folder.path).isEmpty)
  }

  @Test func keysAndValuesWithADashFollowADoubleDash() async throws {
    #expect(try await Moraine.run("put", place.store, "--", "-k", "--value").code == 0)
    #expect(try await Moraine.run("get", place.store, "--", "-k").text == "--value")
    #expect(try await Moraine.run("delete", place.store, "--", "-k").code == 0)
    #expect(try await Moraine.run("get", place.store, "-k").code == 2)
  }

  /// A megabyte is more than a pipe holds and more than one read returns.
  @Test func aLargeValueIsWhole() async throws {
    let bytes = (0..<1_000_003).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
    #expect(try await Moraine.run(["put", place.store, "k"], input: bytes).code == 0)
    #expect(try await Moraine.run("get", place.store, "k").output == bytes)
  }
}
