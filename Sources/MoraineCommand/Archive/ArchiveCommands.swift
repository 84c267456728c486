import ArgumentParser
import Foundation
import Moraine
import MoraineArchive
import SystemPackage

struct ArchiveStore: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "archive",
    abstract: "Brings the archive of a store up to date.",
    discussion: """
      An archive is a copy from which each moment that was archived can be
      restored. Only what is new since the last time is copied. A program archives
      its store continuously with MoraineArchive; this command does it once, for a
      store that no program has open.

      The directory of the archive must have been prepared once with --create, so
      that a disk that is not mounted is noticed. The writer that comes last fences
      the earlier writers of an archive.

        moraine archive users.moraine file:/mnt/nas/users --create
        moraine archive users.moraine file:/mnt/nas/users
        moraine archive-info file:/mnt/nas/users
        moraine restore file:/mnt/nas/users users.moraine --at 2026-11-22T14:05:00Z

      When the store is an older copy than the archive, or both went on from a common
      state, the command refuses. With --adopt the archive is restored in its place,
      and the directory is kept under another name: NAME.branch-EPOCH, followed by
      -2, -3 and so on where that name is taken.

      A bucket is s3://BUCKET/PREFIX?endpoint=https://HOST&region=REGION; each part
      after the bucket may be missing. The keys come from AWS_ACCESS_KEY_ID and
      AWS_SECRET_ACCESS_KEY, or from the profile AWS_PROFILE in ~/.aws/credentials.
      This needs a program that was built with --traits S3.

        moraine archive users.moraine 's3://backups/users?region=eu-west-1' --create

      Exit code 8 when another writer took over, 9 when the store is an
      older copy or a branch, 10 when the place cannot be reached or cannot hold an
      archive. With --json one object: position, sequence, term, checkpoint, branch.
      """)
  @OptionGroup var store: StoreOptions
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "Prepare the directory, and create the archive, if there is none.")
  var create = false
  @Flag(help: "Make a checkpoint, so that nothing older is needed to restore from now on.")
  var checkpoint = false
  @Flag(help: "Replace a store that is too old, and keep its directory under another name.")
  var adopt = false
  @Flag(help: "Print one JSON object.") var json = false

  func validate() throws {
    if adopt { try RenamedDirectory.check(store.directory) }
  }

  func run() async throws {
    _ = try archive.objects()
    var branch: String?
    var status: ArchiveStatus?
    do {
      for attempt in 0..<Self.adoptions {
        do {
          status = try await ship(isAdopted: attempt > 0)
          break
        } catch let error as ArchiveError
          where adopt && error.code == .diverged && attempt < Self.adoptions - 1
        {
          // The archive may go on while it is restored: then it is restored again.
          let kept = try await archive.open().adopt(in: FilePath(store.directory)).string
          // The first directory has the operations that the archive lacks. Later ones are restored.
          branch = branch ?? kept
        }
      }
    } catch {
      if let branch { Output.note(Self.keptText(branch)) }
      throw error
    }
    guard let status else { preconditionFailure("the last attempt throws") }
    if json {
      let object: JSONObject = [
        "position": status.position, "sequence": status.archivedSequence, "term": status.term,
        "checkpoint": status.checkpoint, "branch": branch,
      ]
      return try Output.line(object.json)
    }
    if let branch { try Output.line(Self.keptText(branch)) }
    try Output.line(
      "archived to sequence \(status.archivedSequence): position \(status.position), "
        + "term \(status.term), checkpoint \(status.checkpoint)")
  }

  private static func keptText(_ branch: String) -> String {
    "the directory until now is kept: \(branch)"
  }

  /// Attempts to attach the store, each but the first after it was replaced by the archive's newest
  /// state.
  private static let adoptions = 4

  private func ship(isAdopted: Bool) async throws -> ArchiveStatus {
    // A store that is open as a shared one cannot be archived.
    try await store.writing(createIfMissing: false, isAlone: true) { store in
      // Only now: a path without a store must leave no empty archive.
      if create { try await self.archive.prepare() }
      let archive = try await self.archive.open(
        for: create ? store : nil, writer: ProcessInfo.processInfo.hostName, offersCreation: true
      ) { $0.mustContinueNewestState = isAdopted }
      let writer = try await archive.attach(store)
      if checkpoint { try await writer.checkpoint() }
      try await writer.detach()
      return writer.status
    }
  }
}

struct ArchiveInformation: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "archive-info",
    abstract: "Shows what an archive holds.",
    discussion: """
      With --json one object: id, storeID, position, sequence, time, term,
      checkpoint, checkpointPosition, commitCount. With --checkpoints one object for
      each checkpoint, the newest first: checkpoint, position, sequence, time, term,
      extent. The extent says what a cleaning has left: moments (each moment from the
      checkpoint on), state (its state alone), removed.

      --svg FILE draws the checkpoints, and which moments can be restored.

        moraine archive-info file:/mnt/nas/users --svg users-archive.svg
      """)
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "List all checkpoints, and what can be restored from each.")
  var checkpoints = false
  @Option(help: "Draw the archive into this file.", completion: .file(extensions: ["svg"]))
  var svg: String?
  @Flag(help: "Print JSON objects.") var json = false

  func validate() throws {
    if svg != nil, json || checkpoints {
      throw ValidationError("--svg excludes --json and --checkpoints")
    }
  }

  func run() async throws {
    if checkpoints { return try await list() }
    if let svg {
      try Drawing.checkWritable(svg)
      let archive = try await archive.open()
      let (info, checkpoints) = (try await archive.info(), try await archive.checkpoints())
      return try ArchivePicture(info: info, checkpoints: checkpoints).write(to: svg)
    }
    let info = try await archive.open().info()
    let time = Moment.text(milliseconds: info.milliseconds)
    if json {
      let object: JSONObject = [
        "id": info.id, "storeID": info.storeID, "position": info.position,
        "sequence": info.sequence, "time": time, "term": info.term,
        "checkpoint": info.checkpoint, "checkpointPosition": info.checkpointPosition,
        "commitCount": info.commitCount,
      ]
      return try Output.line(object.json)
    }
    try Output.line("archive \(info.id) of store \(info.storeID)")
    try Output.line("newest state: sequence \(info.sequence), position \(info.position), \(time)")
    try Output.line(
      "newest checkpoint: \(info.checkpoint), position \(info.checkpointPosition); "
        + "\(Units.counted(info.commitCount, "commit")) after it; term \(info.term)")
  }

  private func list() async throws {
    for checkpoint in try await archive.open().checkpoints() {
      let time = Moment.text(milliseconds: checkpoint.milliseconds)
      if json {
        let object: JSONObject = [
          "checkpoint": checkpoint.number, "position": checkpoint.position,
          "sequence": checkpoint.sequence, "time": time, "term": checkpoint.term,
          "extent": "\(checkpoint.extent)",
        ]
        try Output.line(object.json)
      } else {
        let extent =
          switch checkpoint.extent {
          case .moments: "each moment from here on"
          case .state: "this state alone"
          case .removed: "removed"
          }
        try Output.line(
          "checkpoint \(checkpoint.number): sequence \(checkpoint.sequence), "
            + "position \(checkpoint.position), \(time): \(extent)")
      }
    }
  }
}

struct ArchiveVerification: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "archive-verify",
    abstract: "Checks each byte that the newest state of an archive needs.",
    discussion: """
      With --deep also what all other states need that can be restored.

      Exit code 3 with the name of the object when one is damaged or missing. With
      --json one object: position, sequence, commitCount, checkedBytes.
      """)
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "Check all states that can be restored.") var deep = false
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    let info = try await archive.open().verify(allStates: deep)
    if json {
      let object: JSONObject = [
        "position": info.position, "sequence": info.sequence, "commitCount": info.commitCount,
        "checkedBytes": info.checkedBytes,
      ]
      return try Output.line(object.json)
    }
    try Output.line(
      "sound to sequence \(info.sequence): \(Units.counted(info.commitCount, "commit")), "
        + "\(Units.bytes(info.checkedBytes)) checked")
  }
}
