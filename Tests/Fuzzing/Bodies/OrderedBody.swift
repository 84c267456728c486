import MoraineEngine
import MoraineFormat
import MoraineStorage

/// A sound store with ordered keyspaces, whose index checkpoint was changed, and then operations.
///
/// Without forged checksums every answer is that of a sorted dictionary. With forged checksums,
/// entries may be missing, until verifying finds no problem. The store never traps, never hangs,
/// and never returns a value that was not written under its key.
enum OrderedBody {
  private static let isForged = FuzzFlags(rawValue: 1)
  private static let isPositional = FuzzFlags(rawValue: 2)
  private static let isReadOnly = FuzzFlags(rawValue: 4)
  private static let isVerifiedFirst = FuzzFlags(rawValue: 8)
  private static let hasSmallSegments = FuzzFlags(rawValue: 16)

  /// The input: flags, the number of edits, the edits, the operations.
  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    var files = try OrderedFixture.files()
    guard let name = files.checkpointName, var bytes = files[name] else { return }
    let edits = try TreeEdits(of: files)
    for _ in 0..<input.byte() & 15 { edits.apply(&input, to: &bytes) }
    if flags.contains(isForged) { CheckpointEdits.mend(&bytes) }
    files[name] = bytes
    var configuration = Store.Configuration.fuzzing(
      flags.contains(isPositional) ? .positional : .mapped)
    configuration.checkpointFloorBytes = 0
    configuration.segmentSizeBytes = flags.contains(hasSmallSegments) ? 1000 : 16 << 10
    configuration.isReadOnly = flags.contains(isReadOnly)
    let opened = try await OrderedRun(
      files, configuration, model: try await OrderedFixture.model(),
      isExact: !flags.contains(isForged))
    guard var run = opened else { return }
    run.written = try OrderedFixture.written.get()
    if flags.contains(isVerifiedFirst) { try await run.verify() }
    try await run.steps(&input)
    try await run.end()
    try await run.checkLog()
  }
}
