import ArgumentParser
import Foundation
import Moraine
import MoraineArchive
import MoraineFormat
import SystemPackage

struct Follow: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Keeps a copy of an archived store up to date on this machine.",
    discussion: """
      What another machine archives appears here within seconds. The first time, the
      directory gets the newest state of the archive. No other process can open the
      directory while it follows. The command runs until it is stopped; with --once
      it applies what the archive has, and ends.

      When the writer's machine is lost, `moraine promote` makes this copy the
      writer.

        moraine follow file:/mnt/nas/users replica.moraine
        moraine follow file:/mnt/nas/users replica.moraine --once

      With --json one object for each state: position, sequence, time.
      """)
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Argument(help: "The follower's directory: missing, empty or its own.", completion: .directory)
  var directory: String
  @Flag(help: "Apply what the archive has, and end.") var once = false
  @Option(help: "Seconds between two looks at the archive.") var interval = 1.0
  @Flag(help: "Print JSON objects.") var json = false

  func validate() throws {
    try StoreOptions.refuseEmpty(directory, "the follower's directory")
    guard interval > 0, interval < 86_400 else {
      throw ValidationError("--interval is more than 0 and less than a day")
    }
  }

  func run() async throws {
    let follower = try await archive.open { configuration in
      configuration.pollInterval = .seconds(interval)
      configuration.onEvent = { event in
        if case .stuck(let error) = event { Output.note("the archive cannot be read: \(error)") }
        if case .rebased(let position) = event {
          Output.note("began again from a whole copy at position \(position)")
        }
      }
    }.follow(in: FilePath(directory))
    try await follower.catchUp()
    var shown = follower.freshness
    try show(shown)
    try Output.flush()
    while !once {
      try await follower.waitFor(SequenceNumber(rawValue: shown.sequence.rawValue + 1))
      shown = follower.freshness
      try show(shown)
      try Output.flush()
    }
    try await follower.close()
  }

  private func show(_ state: Freshness) throws {
    let time = state.milliseconds == 0 ? "" : Moment.text(milliseconds: state.milliseconds)
    if json {
      let object: JSONObject = [
        "position": state.position, "sequence": state.sequence, "time": time,
      ]
      return try Output.line(object.json)
    }
    let suffix = time.isEmpty ? "" : ", archived at \(time)"
    try Output.line("sequence \(state.sequence), position \(state.position)\(suffix)")
  }
}

struct Promote: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Makes a follower the writer of its archive.",
    discussion: """
      Applies everything that was archived, and fences the earlier writer: it
      archives nothing more and refuses writes, also when its machine comes back.
      What it had not archived is not part of this store.

        moraine promote replica.moraine file:/mnt/nas/users

      With --json one object: position, sequence, term.
      """)
  @Argument(help: "The follower's directory.", completion: .directory) var directory: String
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace
  @Flag(help: "Print one JSON object.") var json = false

  func validate() throws { try StoreOptions.refuseEmpty(directory, "the follower's directory") }

  func run() async throws {
    // A wrong name must not fence a writer that is alive.
    let manifest = FilePath(directory).appending(Manifest.fileName).string
    guard FileManager.default.fileExists(atPath: manifest) else {
      throw Failure.usage("'\(directory)': there is no follower here; `moraine follow` makes one")
    }
    let follower = try await archive.open {
      $0.writerName = ProcessInfo.processInfo.hostName
    }.follow(in: FilePath(directory))
    let (store, writer) = try await follower.promote()
    try await writer.detach()
    let status = writer.status
    try await store.close()
    if json {
      let object: JSONObject = [
        "position": status.position, "sequence": status.archivedSequence, "term": status.term,
      ]
      return try Output.line(object.json)
    }
    try Output.line(
      "promoted at sequence \(status.archivedSequence): position \(status.position), "
        + "term \(status.term)")
  }
}

struct Rejoin: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Lets the store of an earlier writer follow its archive.",
    discussion: """
      For a machine that comes back after another one was promoted. Its directory
      is kept beside the new one, as NAME.branch-EPOCH: it may have operations that
      were never archived. `moraine dump --keyspace NAME` shows what a keyspace has.

        moraine rejoin users.moraine file:/mnt/nas/users
      """)
  @Argument(help: "The store's directory.", completion: .directory) var directory: String
  @Argument(help: ArchivePlace.help) var archive: ArchivePlace

  func validate() throws { try RenamedDirectory.check(directory) }

  func run() async throws {
    try checkStore()
    let (follower, branch) = try await archive.open().rejoin(in: FilePath(directory))
    let state = follower.freshness
    try await follower.close()
    if let branch { try Output.line("kept the earlier store as \(branch)") }
    try Output.line("follows at sequence \(state.sequence), position \(state.position)")
  }

  /// Checks that there is, or was, a store: a misspelt path must not become a new follower. A
  /// rejoin that was killed between two renamings has left directories beside the missing one.
  private func checkStore() throws {
    let path = FilePath(directory)
    if FileManager.default.fileExists(atPath: path.string) { return }
    let name = path.lastComponent?.string ?? ""
    let folder = path.removingLastComponent().string
    let parent = folder.isEmpty ? "." : folder
    var names: [String] = []
    if FileManager.default.fileExists(atPath: parent) {
      do { names = try FileManager.default.contentsOfDirectory(atPath: parent) } catch {
        throw Failure("list \(parent)", error)
      }
    }
    if names.contains(where: { $0 == name + ".rejoining" || $0.hasPrefix(name + ".branch-") }) {
      return
    }
    throw Failure.usage(
      "'\(directory)': there is no store at this path; `moraine follow` makes a follower")
  }
}
