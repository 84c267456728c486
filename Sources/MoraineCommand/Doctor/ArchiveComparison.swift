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

  /// What doctor says of a store with this id and this last operation.
  ///
  /// - Parameter last: the store's last operation; nil when the store does not open.
  func lines(storeID: StoreIdentifier?, last: SequenceNumber?) -> [String] {
    guard let info else {
      return ["The archive could not be read: \(problem.map { "\($0)" } ?? "no reason is known")"]
    }
    if let storeID, info.storeID != storeID.description {
      return ["The archive \(place) is the copy of another store, \(info.storeID)."]
    }
    var line =
      "The archive has the store up to sequence \(info.sequence), position \(info.position), "
      + "\(Moment.text(milliseconds: info.milliseconds))"
    if let last {
      if last == info.sequence { line += ": everything" }
      if last > info.sequence {
        let count = last.rawValue - info.sequence.rawValue
        line +=
          "; \(Units.counted(Int(clamping: count), "operation")) of the store "
          + (count == 1 ? "is" : "are") + " not archived"
      }
      if last < info.sequence {
        let count = info.sequence.rawValue - last.rawValue
        line +=
          "; that is \(Units.counted(Int(clamping: count), "operation")) more than the store has"
      }
    }
    return [line + "."]
  }

  /// What to do about the archive.
  ///
  /// - Parameter last: the store's last operation; nil when the store is damaged.
  func advice(_ store: String, storeID: StoreIdentifier?, last: SequenceNumber?) -> [String] {
    guard let info else {
      return ["Check the place of the archive, and run moraine archive-info \(place)"]
    }
    if let storeID, info.storeID != storeID.description {
      return ["Name the archive of this store, whose id is \(storeID)."]
    }
    guard let last else { return ["With the archive: moraine restore \(place) NEW"] }
    if last > info.sequence {
      return ["To archive the rest, if no program does: moraine archive \(store) \(place)"]
    }
    if last < info.sequence {
      return [
        "The store is an older copy, or another machine has gone on. To take the archive's state: "
          + "moraine archive \(store) \(place) --adopt"
      ]
    }
    return []
  }

  /// Members of the JSON object.
  func object(last: SequenceNumber?) -> JSONObject {
    var object: JSONObject = [:]
    if let info {
      object.add("id", info.id)
      object.add("storeID", info.storeID)
      object.add("sequence", info.sequence)
      object.add("position", info.position)
      object.add("time", Moment.text(milliseconds: info.milliseconds))
      if let last {
        object.add("unarchivedCount", last.rawValue - min(last, info.sequence).rawValue)
      }
    }
    if let problem { object.add("problem", "\(problem)") }
    return object
  }
}
