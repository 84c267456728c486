import MoraineFormat

/// How much garbage there is, and how urgent that is.
extension EngineState {
  func diskBytes() -> UInt64 { UInt64(totalBytes) }

  private var totalBytes: Int { table.order.reduce(0) { $0 + table[$1].end } }

  /// All but the garbage that must stay, because it is among what is damaged: no other segment has
  /// to be rewritten for its sake, and nobody has to wait.
  var cleanableBytes: Int {
    if table.damage.isEmpty { return totalBytes }
    return figures(compactable()).reduce(totalBytes) { $1.isDamaged ? $0 - $1.garbageBytes : $0 }
  }

  /// Bytes over what the policy allows. Not an integer: a limit may allow more than one holds.
  private func debtBytes(_ policy: CompactionPolicy) -> Double {
    Double(cleanableBytes) - Double(liveBytes) * policy.spaceAmplificationLimit
  }

  /// Whether compaction has no time to lose.
  func isBehind(_ policy: CompactionPolicy) -> Bool { debtBytes(policy) > 0 }

  /// Whether writers must wait for it; small stores are not worth the wait, and who limits its
  /// speed does not mean to limit theirs.
  func isFarBehind(_ policy: CompactionPolicy) -> Bool {
    policy.rateLimitBytesPerSecond == nil && debtBytes(policy) > Double(1 << 20)
  }

  /// Whether the active segment is worth sealing for its garbage alone.
  func isActiveGarbage(_ policy: CompactionPolicy) -> Bool {
    guard let active, !active.hasFooter, isBehind(policy) else { return false }
    let view = table[active.slot]
    return view.end > 1 << 20 && view.liveBytes < UInt64(view.end / 4)
  }

  /// Whether a compaction of everything would give back so much that writers can wait for it.
  func isWorthCleaning() -> Bool {
    let garbage = figures(table.order).reduce(0) { $0 + ($1.isDamaged ? 0 : $1.garbageBytes) }
    return garbage > max(FileBlock.lengthBytes, totalBytes / 32)
  }

  /// The segment with garbage whose rewriting takes the least space; nil when none has any.
  func cheapest() -> Int? {
    let slots = compactable()
    let all = figures(slots)
    let poor = all.indices.filter { all[$0].garbageBytes > 0 && !all[$0].isDamaged }
    func cost(_ index: Int) -> Int { all[index].liveBytes + all[index].keptDeleteBytes }
    return poor.min { cost($0) < cost($1) }.map { slots[$0] }
  }
}
