/// What of the unsynced changes a power failure leaves on the disk.
package enum CrashPolicy: Hashable, Sendable {
  /// Nothing that was not synced.
  case nothing
  /// Everything: the process died, the machine lives.
  case everything
  /// Any of the 4 KiB pages, lengths and names; the seed says which.
  case pages(seed: UInt64)
  /// As ``pages(seed:)``, and some pages are torn between their 512-byte sectors.
  case sectors(seed: UInt64)

  static let pageBytes = 4096
  static let sectorBytes = 512
}

/// Draws what survives.
struct CrashChoice {
  private let policy: CrashPolicy
  private var generator: SeededGenerator

  init(_ policy: CrashPolicy) {
    self.policy = policy
    switch policy {
    case .nothing, .everything: generator = SeededGenerator(seed: 0)
    case .pages(let seed), .sectors(let seed): generator = SeededGenerator(seed: seed)
    }
  }

  /// Whether a change survives.
  mutating func survives() -> Bool {
    switch policy {
    case .nothing: false
    case .everything: true
    case .pages, .sectors: generator.next() & 1 == 1
    }
  }

  /// The bytes of a file that held `synced` when it was last synced and would hold `written`.
  mutating func merge(_ synced: [UInt8], _ written: [UInt8]) -> [UInt8] {
    if synced == written { return synced }
    let count = survives() ? written.count : synced.count
    var result = [UInt8](repeating: 0, count: count)
    for page in stride(from: 0, to: count, by: CrashPolicy.pageBytes) {
      let end = min(page + CrashPolicy.pageBytes, count)
      var isTorn = false
      if case .sectors = policy { isTorn = generator.next() % 3 == 0 }
      if !isTorn {
        copy(survives() ? written : synced, page..<end, to: &result)
        continue
      }
      for sector in stride(from: page, to: end, by: CrashPolicy.sectorBytes) {
        let sectorEnd = min(sector + CrashPolicy.sectorBytes, end)
        copy(survives() ? written : synced, sector..<sectorEnd, to: &result)
      }
    }
    return result
  }

  private func copy(_ source: [UInt8], _ range: Range<Int>, to target: inout [UInt8]) {
    for place in range where place < source.count { target[place] = source[place] }
  }
}
