import ArgumentParser
import Moraine

struct Compact: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Rewrites a store so that little but live data remains.",
    discussion: """
      Needs about one segment of extra space at a time. It can be interrupted at
      any moment without loss of data.

        moraine compact users.moraine
      """)
  @OptionGroup var store: StoreOptions

  func run() async throws {
    let bar = ProgressBar("compacting")
    defer { bar.finish() }
    let report = try await store.writing(createIfMissing: false) { store in
      try await store.compact { progress in
        bar.update(progress.completedBytes, of: progress.totalBytes)
      }
    }
    bar.finish()
    guard report.inputSegmentCount > 0 else { return try Output.line("nothing to compact") }
    let (before, after) = (Units.bytes(report.inputBytes), Units.bytes(report.outputBytes))
    try Output.line(
      "compacted \(Units.counted(report.inputSegmentCount, "segment")): \(before) to \(after)")
  }
}
