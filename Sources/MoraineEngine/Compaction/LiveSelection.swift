import MoraineFormat

/// Records that a compaction takes for live, summed up for each of its inputs.
struct LiveSelection {
  private struct Sum: Equatable {
    var bytes: UInt64 = 0
    var digest = StateDigest()
  }

  private var sums: [Int: Sum] = [:]

  mutating func add(_ candidate: CompactionCandidate) {
    add(candidate.address.slot, candidate.length, candidate.hash, candidate.sequence)
  }

  mutating func add(_ relocation: Relocation) {
    add(
      relocation.old.slot, Int(relocation.oldLength), relocation.hash, relocation.sequence)
  }

  private mutating func add(_ slot: Int, _ length: Int, _ hash: UInt64, _ sequence: UInt64) {
    sums[slot, default: Sum()].bytes += UInt64(aligned(length))
    sums[slot, default: Sum()].digest.add(hash: hash, sequence: sequence)
  }

  /// Whether a segment has just these live records.
  func agrees(with view: SegmentView, of slot: Int) -> Bool {
    let sum = sums[slot] ?? Sum()
    return sum.bytes == view.liveBytes && sum.digest == view.digest
  }
}

extension EngineState {
  func agrees(with selection: LiveSelection, _ slots: [Int]) -> Bool {
    slots.allSatisfy { selection.agrees(with: table[$0], of: $0) }
  }

  /// Adds the copied records that are still live.
  func add(_ relocations: ArraySlice<Relocation>, to selection: inout LiveSelection) {
    for relocation in relocations { index.prefetch(relocation.hash) }
    for relocation in relocations where index.holds(relocation.old, relocation.hash) {
      selection.add(relocation)
    }
  }
}
