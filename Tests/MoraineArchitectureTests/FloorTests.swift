import Foundation
import Testing

/// The folders of the engine are floors: a file refers only to types of its own floor and of lower
/// floors, so there is no circle between folders. Public values are nested in `Store`, which gives
/// them their name only: `Store.Configuration` counts as the type `Configuration` of its folder.
@Suite struct FloorTests {
  /// From the lowest to the highest.
  static let floors = [
    "API", "Indexes", "Concurrency", "Files", "Peers", "Watchers", "Index", "Commit", "Segments",
    "Engine",
    "Checkpoint", "Recovery", "Snapshots", "Shipping", "Store", "Transactions", "Sharing",
    "Compaction",
    "Observation", "LargeValues", "Registry", "Backup", "Following", "Salvage",
  ]

  @Test func everyFolderHasAFloor() throws {
    let folders = try Set(Source.files(in: "MoraineEngine").map(\.folder))
    #expect(folders == Set(Self.floors))
  }

  @Test func typesOfHigherFloorsAreNotReferredTo() throws {
    let files = try Source.files(in: "MoraineEngine")
    let height = Dictionary(
      uniqueKeysWithValues: Self.floors.enumerated().map { ($0.element, $0.offset) })
    var owners: [String: String] = [:]
    for file in files {
      for name in file.topLevelTypes {
        #expect(owners[name] == nil, "two types are called \(name)")
        owners[name] = file.folder
      }
    }
    #expect(owners.count > 100, "the types were not found")
    for file in files {
      for name in file.typeNames {
        guard let owner = owners[name], let above = height[owner], let own = height[file.folder]
        else { continue }
        if above > own { Issue.record("\(file.path) refers to \(name) of the floor \(owner)") }
      }
    }
  }
}

extension Source {
  /// The folder in the module; empty for a file outside of all folders.
  fileprivate var folder: String {
    let parts = path.split(separator: "/")
    return parts.count > 2 ? String(parts[1]) : ""
  }

  /// Types that are declared outside of another one, except private ones.
  fileprivate var topLevelTypes: [String] {
    var isInStore = false
    return lines.compactMap { whole in
      if whole == "extension Store {" { isInStore = true }
      if whole == "}" { isInStore = false }
      let line = isInStore && whole.hasPrefix("  public ") ? whole.dropFirst(2) : whole[...]
      guard let first = line.first, first.isLetter || first == "@" else { return nil }
      let words = line.split(whereSeparator: { " :<({".contains($0) })
      guard !words.contains("private"), !words.contains("fileprivate"),
        let keyword = words.firstIndex(where: { Self.keywords.contains(String($0)) }),
        keyword + 1 < words.count
      else { return nil }
      return String(words[keyword + 1])
    }
  }

  private static let keywords: Set<String> = [
    "struct", "class", "enum", "actor", "protocol", "typealias",
  ]

  /// Capitalized words of the code that no point precedes, without comments and strings.
  fileprivate var typeNames: Set<String> {
    var result: Set<String> = []
    let nested = code.replacing(/"(\\.|[^"\\])*"/, with: "\"\"")
      .replacing(/extension Store \{/, with: "").replacing(/\bStore\.(?=[A-Z])/, with: "")
    for line in nested.split(separator: "\n") {
      for match in line.matches(of: /(^|[^.\w])([A-Z]\w*)/) {
        result.insert(String(match.output.2))
      }
    }
    return result
  }
}
