/// The unsynced changes that a power failure leaves on the disk.
public enum CrashPolicy: Hashable, Sendable {
  /// Only what was synced survives.
  case nothing
  /// Everything survives: the process dies, the machine does not.
  case everything
  /// The seed decides for each page of 4 KiB, each length and each name.
  case pages(seed: UInt64)
  /// Like ``pages(seed:)``, but some pages are torn between their 512-byte sectors.
  case sectors(seed: UInt64)
  /// The list decides for each page, length and name, in the order of the decisions; changes after
  /// the end of the list are lost.
  case choices([Bool])

  static let pageBytes = 4096
  static let sectorBytes = 512
}

extension CrashPolicy: CustomStringConvertible {
  public var description: String {
    switch self {
    case .nothing: "nothing unsynced survives"
    case .everything: "everything survives"
    case .pages(let seed): "pages survive as drawn with seed \(seed)"
    case .sectors(let seed): "sectors survive as drawn with seed \(seed)"
    case .choices(let list): "survivors " + list.map { $0 ? "1" : "0" }.joined()
    }
  }
}

/// Decides for each change whether it survives a crash.
struct CrashChoice {
  private let policy: CrashPolicy
  private var generator: SeededGenerator
  /// The decisions so far.
  private(set) var taken: [Bool] = []

  init(_ policy: CrashPolicy) {
    self.policy = policy
    switch policy {
    case .nothing, .everything, .choices: generator = SeededGenerator(seed: 0)
    case .pages(let seed), .sectors(let seed): generator = SeededGenerator(seed: seed)
    }
  }

  /// Decides whether the next change survives.
  mutating func survives() -> Bool {
    switch policy {
    case .nothing: return false
    case .everything: return true
    case .pages, .sectors: return generator.next() & 1 == 1
    case .choices(let list):
      let answer = taken.count < list.count && list[taken.count]
      taken.append(answer)
      return answer
    }
  }

  /// The bytes that a file has after a crash.
  mutating func merge(_ versions: DiskMoment.Versions) -> [UInt8] {
    let (synced, written) = (versions.synced, versions.current)
    if synced == written { return synced }
    if policy == .everything { return written }
    let count = synced.count == written.count || survives() ? written.count : synced.count
    var result = [UInt8](repeating: 0, count: count)
    for page in stride(from: 0, to: count, by: CrashPolicy.pageBytes) {
      let range = page..<min(page + CrashPolicy.pageBytes, count)
      if Self.isSame(synced, written, range) {
        Self.copy(written, range, to: &result)
      } else if versions.lost.unwritten.contains(page / CrashPolicy.pageBytes) {
        Self.copy(synced, range, to: &result)
      } else if isTorn() {
        for sector in stride(from: page, to: range.upperBound, by: CrashPolicy.sectorBytes) {
          let part = sector..<min(sector + CrashPolicy.sectorBytes, count)
          Self.copy(survives() ? written : synced, part, to: &result)
        }
      } else {
        Self.copy(survives() ? written : synced, range, to: &result)
      }
    }
    return result
  }

  private mutating func isTorn() -> Bool {
    if case .sectors = policy { return generator.next() % 3 == 0 }
    return false
  }

  /// Whether both files have the same bytes in a range. Bytes after the end of a file count as
  /// zeros.
  private static func isSame(_ one: [UInt8], _ other: [UInt8], _ range: Range<Int>) -> Bool {
    range.allSatisfy { place in
      (place < one.count ? one[place] : 0) == (place < other.count ? other[place] : 0)
    }
  }

  private static func copy(_ source: [UInt8], _ range: Range<Int>, to target: inout [UInt8]) {
    let end = min(range.upperBound, source.count)
    guard range.lowerBound < end else { return }
    target.replaceSubrange(range.lowerBound..<end, with: source[range.lowerBound..<end])
  }
}
