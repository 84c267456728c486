/// What of the unsynced changes a power failure leaves on the disk.
public enum CrashPolicy: Hashable, Sendable {
  /// Nothing that was not synced.
  case nothing
  /// Everything: the process died, the machine lives.
  case everything
  /// Any of the 4 KiB pages, lengths and names; the seed says which.
  case pages(seed: UInt64)
  /// The same as ``pages(seed:)``, and some pages are torn between their 512-byte sectors.
  case sectors(seed: UInt64)
  /// Pages, lengths and names as listed, in the order in which they are decided; everything after
  /// the list is lost.
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

/// Draws what survives.
struct CrashChoice {
  private let policy: CrashPolicy
  private var generator: SeededGenerator
  /// What was answered so far.
  private(set) var taken: [Bool] = []

  init(_ policy: CrashPolicy) {
    self.policy = policy
    switch policy {
    case .nothing, .everything, .choices: generator = SeededGenerator(seed: 0)
    case .pages(let seed), .sectors(let seed): generator = SeededGenerator(seed: seed)
    }
  }

  /// Whether a change survives.
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

  /// The bytes that a crash leaves of a file.
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

  /// Whether both files have the same bytes in a range; a file has zeros after its end.
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
