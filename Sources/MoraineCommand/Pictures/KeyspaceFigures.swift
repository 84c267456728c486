import Moraine
import MoraineFormat

/// The keyspaces of a store, their indexes, and the archive that the store belongs to.
struct KeyspaceFigures: Sendable {
  let keyspaces: [KeyspaceStatistics]
  let indexes: [ListedIndex]

  init(_ store: Store) async throws {
    keyspaces = try await store.keyspaceStatistics()
    indexes = try await ListedIndex.all(of: store)
  }

  /// Whether the store has more than the unnamed hashed keyspace.
  var areWorthShowing: Bool { keyspaces.count > 1 || keyspaces.contains(where: \.isOrdered) }

  /// The keyspaces of programs, without those that hold indexes.
  var named: [KeyspaceStatistics] {
    keyspaces.filter { IndexLayout.indexedName(of: $0.name) == nil }
  }

  /// Share of the longest bar that a keyspace has.
  func share(_ keyspace: KeyspaceStatistics) -> Double {
    let most = keyspaces.map(\.liveBytes).max() ?? 0
    return most == 0 ? 0 : Double(keyspace.liveBytes) / Double(most)
  }

  /// Returns the keyspace that holds the indexes of another one, and these indexes; nil when it has
  /// none.
  func indexes(of keyspace: KeyspaceStatistics) -> (KeyspaceStatistics, [ListedIndex])? {
    let name = IndexLayout.name(for: keyspace.name)
    guard let holder = keyspaces.first(where: { $0.name == name }) else { return nil }
    return (holder, indexes.filter { $0.keyspace == keyspace.name })
  }

  /// Returns the name, in a form for people.
  static func name(_ keyspace: KeyspaceStatistics) -> String {
    keyspace.name.isEmpty ? "(unnamed)" : Text.printable(keyspace.name.utf8)
  }

  /// Returns the figures of a keyspace, as a note beside its bar.
  static func note(_ keyspace: KeyspaceStatistics) -> String {
    "\(Units.counted(keyspace.count, "key")), \(Units.bytes(keyspace.liveBytes)), "
      + (keyspace.isOrdered ? "ordered" : "hashed")
  }

  /// Returns the name and the state of an index.
  static func note(_ index: ListedIndex) -> String {
    var text = Text.printable(index.name.utf8) + " " + Units.number(UInt64(index.entryCount))
    if index.state != "ready" { text += " \(index.state)" }
    return text
  }

  /// Lines for a terminal: a bar for each keyspace, as long as its live bytes.
  var lines: [String] {
    var lines: [String] = []
    for keyspace in named {
      let bar = TextBar.bar(share(keyspace), width: 24)
      lines.append("  \(bar)  \(Self.name(keyspace)): \(Self.note(keyspace))")
      guard let (holder, indexes) = indexes(of: keyspace) else { continue }
      let pending = indexes.first?.pendingCount ?? 0
      lines.append(
        "  \(TextBar.bar(share(holder), width: 24))    indexes, \(Units.bytes(holder.liveBytes)): "
          + indexes.map { Self.note($0) }.joined(separator: ", ")
          + (pending > 0 ? "; \(Units.counted(pending, "record")) pending" : ""))
    }
    return lines
  }
}

extension Manifest {
  /// How the store and an archive belong together, as a sentence; nil when they do not.
  var archiveSentence: String? {
    if let following {
      return "The store follows archive \(following.archiveID): it has the state of position "
        + "\(following.position), term \(following.term)."
    }
    return attachment.map {
      "The store was archived: archive \($0.archiveID), term \($0.term)."
    }
  }
}
