import ArgumentParser
import Foundation
import Moraine
import MoraineArchive

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

      Exit code 8 when another writer took over, 9 when the store is an
      older copy or a branch, 10 when the directory cannot be reached or cannot
      hold an archive. With --json one object: position, sequence, term, checkpoint.
      """)
  @OptionGroup var store: StoreOptions
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "Prepare the directory, and create the archive, if there is none.")
  var create = false
  @Flag(help: "Make a checkpoint, so that nothing older is needed to restore from now on.")
  var checkpoint = false
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    if create { try await archive.objects.createRoot() }
    let status = try await store.writing(createIfMissing: false) { store in
      let archive = try await self.archive.open(
        for: create ? store : nil, writer: ProcessInfo.processInfo.hostName)
      let writer = try await archive.attach(store)
      if checkpoint { try await writer.checkpoint() }
      try await writer.detach()
      return writer.status
    }
    if json {
      let object: JSONObject = [
        "position": status.position, "sequence": status.archivedSequence, "term": status.term,
        "checkpoint": status.checkpoint,
      ]
      return try Output.line(object.json)
    }
    try Output.line(
      "archived to sequence \(status.archivedSequence): position \(status.position), "
        + "term \(status.term), checkpoint \(status.checkpoint)")
  }
}

struct ArchiveInformation: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "archive-info",
    abstract: "Shows what an archive holds.",
    discussion: """
      With --json one object: id, storeID, position, sequence, time, term,
      checkpoint, checkpointPosition, commitCount.
      """)
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
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
}

struct ArchiveVerification: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "archive-verify",
    abstract: "Checks each byte that the newest state of an archive needs.",
    discussion: """
      Exit code 3 with the name of the object when one is damaged or missing. With
      --json one object: position, sequence, commitCount, checkedBytes.
      """)
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "Print one JSON object.") var json = false

  func run() async throws {
    let info = try await archive.open().verify()
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
