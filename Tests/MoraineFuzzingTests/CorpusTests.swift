import Foundation
import MoraineFuzzing
import Testing

/// Every input that fuzzing has kept, and every input that once showed a bug (`regress-*`).
///
/// `Scripts/fuzz` searches for more; `moraine-fuzz --target=NAME FILE` replays one with
/// AddressSanitizer.
@Suite(.timeLimit(.minutes(10))) struct CorpusTests {
  private static let folder = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Fuzzing/Corpus")

  @Test(arguments: FuzzTarget.allCases)
  func everyInputHolds(target: FuzzTarget) async throws {
    let folder = Self.folder.appending(path: target.rawValue)
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    #expect(!names.isEmpty)
    for name in names {
      let bytes = try Data(contentsOf: folder.appending(path: name))
      do {
        try await target.run([UInt8](bytes))
      } catch {
        Issue.record("\(target.rawValue)/\(name): \(error)")
      }
    }
  }
}
