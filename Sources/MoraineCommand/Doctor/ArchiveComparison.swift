import Moraine
import MoraineArchive
import MoraineFormat

/// How far the archive of a store has come, beside the store.
struct ArchiveComparison: Sendable {
  /// The place of the archive, as a word of a shell command.
  let place: String
  /// What the archive has; nil when it could not be read.
  var info: ArchiveInfo?
  /// Why the archive could not be read.
  var problem: ArchiveError?

  init(_ place: ArchivePlace) async throws {
    self.place = Text.shellQuoted(place.text)
    do {
      info = try await place.open().info()
    } catch let error as ArchiveError {
      problem = error
    }
  }

  /// What doctor says of the archive. Numbers of operations are compared, and not contents.
  ///
  /// - Parameters:
  ///   - manifest: the store's; nil when it could not be read.
  ///   - last: the store's last operation; nil when the store does not open.
  func lines(_ manifest: Manifest?, last: SequenceNumber?) -> [String] {
    guard let info else {
      return ["The archive could not be read: \(problem.map { "\($0)" } ?? "no reason is known")"]
    }
    if isOther(manifest) {
      return ["The archive \(place) is the copy of another store, \(info.storeID)."]
    }
    var line =
      "The archive has the store up to sequence \(info.sequence), position \(info.position), "
      + "\(Moment.text(milliseconds: info.milliseconds))"
    if let last {
      let count = Int(
        clamping: max(last, info.sequence).rawValue - min(last, info.sequence).rawValue)
      let operations = Units.counted(count, "operation")
      if last == info.sequence { line += "; so has the store" }
      if last > info.sequence { line += "; the store has \(operations) more" }
      if last < info.sequence { line += "; the store has \(operations) less" }
    }
    return [line + "."]
  }

  /// What to do about the archive.
  ///
  /// - Parameter last: the store's last operation; nil when the store is damaged.
  func advice(_ store: String, _ manifest: Manifest?, last: SequenceNumber?) -> [String] {
    guard let info else {
      return ["Check the place of the archive, and run moraine archive-info \(place)"]
    }
    if isOther(manifest) { return ["Name the archive of this store: its copy has the store's id."] }
    guard let last else { return ["With the archive: moraine restore \(place) NEW"] }
    // No program writes to a backup, and none archives it.
    if manifest?.isBackup == true { return [] }
    if manifest?.following != nil {
      if last >= info.sequence { return [] }
      return ["To follow the archive: moraine follow \(place) \(store) --once"]
    }
    if let advice = adviceAfterTakeOver(store, manifest, info, last) { return [advice] }
    if last > info.sequence {
      return [
        "To archive the rest, if no program does: moraine archive \(store) \(place) "
          + "(it refuses a store with another history, or one that was archived elsewhere since)"
      ]
    }
    if last < info.sequence {
      return [
        "The store is an older copy. To take the archive's state, only if no other machine writes "
          + "(it fences the last writer): moraine archive \(store) \(place) --adopt"
      ]
    }
    return []
  }

  /// What to do with a store after another writer has taken over its archive; nil when none has.
  /// Archiving this store would fence that writer, also when it has written nothing yet.
  private func adviceAfterTakeOver(
    _ store: String, _ manifest: Manifest?, _ info: ArchiveInfo, _ last: SequenceNumber
  ) -> String? {
    guard let attachment = manifest?.attachment, attachment.archiveID.description == info.id,
      attachment.term < info.term
    else { return nil }
    let count = Int(clamping: max(last, info.sequence).rawValue - info.sequence.rawValue)
    let lack =
      count == 0
      ? "" : "; the archive lacks at least \(Units.counted(count, "operation")) of this store"
    return "Another machine, or another copy of the store, has taken over the archive (term "
      + "\(info.term))\(lack). To follow it, and keep this copy as a branch: moraine rejoin "
      + "\(store) \(place) (moraine archive would fence that writer)"
  }

  private func isOther(_ manifest: Manifest?) -> Bool {
    guard let info, let manifest else { return false }
    return info.storeID != manifest.storeID.description
  }

  /// Members of the JSON object.
  func object(_ manifest: Manifest?, last: SequenceNumber?) -> JSONObject {
    var object: JSONObject = [:]
    if let info {
      object.add("id", info.id)
      object.add("storeID", info.storeID)
      object.add("sequence", info.sequence)
      object.add("position", info.position)
      object.add("time", Moment.text(milliseconds: info.milliseconds))
      if let last, !isOther(manifest) {
        object.add("unarchivedCount", last.rawValue - min(last, info.sequence).rawValue)
      }
    }
    if let problem { object.add("problem", "\(problem)") }
    return object
  }
}
