import Foundation
import Subprocess
import SystemPackage
import Testing

/// load reads a stream: it stores the first batch before the input has ended.
@Suite struct LoadStreamTests {
  @Test(.timeLimit(.minutes(10))) func aFullBatchIsStoredBeforeTheInputEnds() async throws {
    let place = try Place()
    let store = place.store
    let outcome = try await Subprocess.run(
      .path(FilePath(Moraine.path)), arguments: ["load", store, "--batch", "1"],
      environment: Moraine.environment, input: .inputWriter, output: .discarded, error: .discarded
    ) { execution in
      _ = try await execution.standardInputWriter.write("{\"id\":1}\n{\"id\":2}\n")
      // The first batch creates the store's directory: the test waits for the directory and not for
      // a time.
      while !FileManager.default.fileExists(atPath: store + "/MANIFEST") { await Task.yield() }
    }
    #expect(outcome.terminationStatus == .exited(0))
    #expect(try await Moraine.run("scan", store, "--keys-only").text == "1\n2\n")
  }
}
