import MoraineEngine
import SystemPackage
import Testing

/// A fault at every single call of three runs of a store, reopening included.
@Suite struct FaultyLivesTests {
  struct Case: Sendable, CustomTestStringConvertible {
    let mode: Store.Configuration.IOMode
    let misfortune: Misfortune
    var testDescription: String { "\(mode), \(misfortune)" }
  }

  static let cases: [Case] = [Store.Configuration.IOMode.mapped, .positional].flatMap { mode in
    [(Errno.ioError, 0), (.noSpace, 30), (.tooManyOpenFiles, 0)].flatMap { errno, part in
      [false, true].map { isPermanent in
        Case(
          mode: mode,
          misfortune: Misfortune(errno: errno, isPermanent: isPermanent, partLengthBytes: part))
      }
    }
  }

  @Test(arguments: cases)
  func everyRunReadsExactlyTheAcknowledgedState(_ item: Case) async throws {
    let quiet = FaultyLives(item.mode, item.misfortune, at: nil)
    try await quiet.live()
    let calls = quiet.injector.calls
    #expect(Set(calls.map(\.life)) == [0, 1, 2])
    #expect(calls.count > 150)
    var missed: [Call] = []
    for call in calls where item.misfortune.befalls(call.operation) {
      let lives = FaultyLives(item.mode, item.misfortune, at: call)
      try await lives.live()
      if !lives.injector.hasStruck { missed.append(call) }
    }
    #expect(missed.isEmpty, "never reached")
  }
}
