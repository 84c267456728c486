import Testing

@testable import MoraineCommand

/// The moments that the option --at takes.
@Suite struct MomentTests {
  /// A restore must not contain what came after the moment, so a moment is never rounded up.
  @Test func momentsAreReadExactly() {
    let table: [(text: String, milliseconds: UInt64)] = [
      ("2026-12-22T14:05:00Z", 1_797_948_300_000), ("2026-12-22T14:05:00z", 1_797_948_300_000),
      ("2026-12-22T14:05:00.07Z", 1_797_948_300_070),
      ("2026-12-22T14:05:00.123999Z", 1_797_948_300_123),
      ("2026-12-22T15:05:00.5+01:00", 1_797_948_300_500),
      ("2026-12-22T08:35:00-0530", 1_797_948_300_000),
      ("2026-12-22T13:05:00-01", 1_797_948_300_000), ("1970-01-01T00:00:00Z", 0),
      ("2028-02-29T00:00:00Z", 1_835_395_200_000),
    ]
    for (text, milliseconds) in table {
      #expect(Moment(argument: text)?.milliseconds == milliseconds, "\(text)")
    }
    #expect(Moment(argument: "1970-01-01T00:00:00+01:00") == nil)
  }
}
