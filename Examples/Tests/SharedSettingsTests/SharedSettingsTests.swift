import ExampleTesting
import Foundation
import Testing

/// Tests two real processes of the built example. Each `hear` waits for a line, not for a time.
@Suite(.timeLimit(.minutes(2))) struct SharedSettingsTests {
  private let folder: TemporaryFolder
  private var path: String { folder.url.path }

  init() throws { folder = try TemporaryFolder() }

  /// The lines that a process prints first.
  private func greeting(_ conversation: Conversation) async throws -> [String] {
    var lines: [String] = []
    for _ in 0..<3 { lines.append(try #require(try await conversation.nextLine())) }
    return lines
  }

  @Test func eachShowsWhatTheOtherChanges() async throws {
    let code = try await Example.talk("SharedSettings", "anna", path) { anna in
      #expect(
        try await greeting(anna) == ["anna edits \(path)", "theme is light", "size is 12"])
      let code = try await Example.talk("SharedSettings", "ben", path) { ben in
        _ = try await greeting(ben)
        try await anna.say("theme dark")
        #expect(try await anna.nextLine() == "theme is dark")
        #expect(try await ben.nextLine() == "theme is dark (from the other process)")
        try await ben.say("size 14")
        #expect(try await ben.nextLine() == "size is 14")
        #expect(try await anna.nextLine() == "size is 14 (from the other process)")
        // Change it back, so often that not every wake-up is the first one.
        for round in 0..<50 {
          let (one, other) = round % 2 == 0 ? (ben, anna) : (anna, ben)
          try await one.say("size \(100 + round)")
          #expect(try await one.nextLine() == "size is \(100 + round)")
          #expect(try await other.nextLine() == "size is \(100 + round) (from the other process)")
        }
      }
      #expect(code == 0)
      // Ben's changes stay, and Anna continues.
      try await anna.say("show")
      #expect(try await anna.nextLine() == "theme is dark")
      #expect(try await anna.nextLine() == "size is 149")
    }
    #expect(code == 0)
  }

  @Test func oneGoesOnWhenTheOtherIsKilled() async throws {
    let code = try await Example.talk("SharedSettings", "anna", path) { anna in
      _ = try await greeting(anna)
      let code = try await Example.talk("SharedSettings", "ben", path) { ben in
        _ = try await greeting(ben)
        try await ben.say("theme dark")
        #expect(try await ben.nextLine() == "theme is dark")
        #expect(try await anna.nextLine() == "theme is dark (from the other process)")
        try await ben.kill()
      }
      #expect(code == -1)
      try await anna.say("size 14")
      #expect(try await anna.nextLine() == "size is 14")
      // A later process has all values, and its changes arrive.
      let later = try await Example.talk("SharedSettings", "carl", path) { carl in
        #expect(
          try await greeting(carl) == ["carl edits \(path)", "theme is dark", "size is 14"])
        try await carl.say("theme light")
        #expect(try await carl.nextLine() == "theme is light")
        #expect(try await anna.nextLine() == "theme is light (from the other process)")
        try await anna.say("theme dark")
        #expect(try await anna.nextLine() == "theme is dark")
        #expect(try await carl.nextLine() == "theme is dark (from the other process)")
      }
      #expect(later == 0)
    }
    #expect(code == 0)
  }

  @Test func settingsAreThereInTheNextRun() async throws {
    let first = try await Example.run(
      "SharedSettings", "anna", path, input: "theme dark\nsize 14\n")
    #expect(first.code == 0, "\(first)")
    let next = try await Example.run("SharedSettings", "anna", path)
    #expect(next.lines.dropFirst() == ["theme is dark", "size is 14"], "\(next)")
  }

  @Test func misuseIsAnsweredAndChangesNothing() async throws {
    let bad = ["theme", "theme purple", "size x", "size 1 2", "shout", ""]
    let outcome = try await Example.run(
      "SharedSettings", "anna", path, input: (bad + ["show"]).joined(separator: "\n"))
    let answers = outcome.lines.dropFirst(3)
    #expect(outcome.code == 0 && answers.count == bad.count + 2, "\(outcome)")
    #expect(answers.contains("'purple' is no theme") && answers.contains("'x' is no size"))
    #expect(answers.suffix(2) == ["theme is light", "size is 12"])
    #expect(try await Example.run("SharedSettings", "anna").code == 2)
  }
}
