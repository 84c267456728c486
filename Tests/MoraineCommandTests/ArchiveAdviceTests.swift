import Testing

@testable import MoraineArchive
@testable import MoraineCommand

/// The advice of the commands for archives, for findings that a run of a command cannot make
/// easily.
@Suite struct ArchiveAdviceTests {
  /// Regression: the text named a verification that does not read this list, and calls the archive
  /// sound.
  @Test func unreadableListOfSegmentsIsLookedForInAllStates() throws {
    var report = CleaningReport()
    try ArchiveCleaning.check(report)
    report.damagedContents = try ObjectName("users/obj/1")
    let text = ArchiveCleaning.lines(report, isDryRun: false).joined(separator: "\n")
    #expect(text.contains("the list of segments users/obj/1 cannot be read"), "\(text)")
    #expect(text.contains("moraine archive-verify ARCHIVE --deep"), "\(text)")
    let failure = #expect(throws: Failure.self) { try ArchiveCleaning.check(report) }
    #expect(failure?.code == 3)
  }
}
