import MoraineFormat
import MoraineStorage

extension Store {
  /// Reads every byte of the store again and checks it: the manifest, headers, checksums, values
  /// that decompress, the count and digest of what is live.
  ///
  /// - Parameter progress: called now and then with how far it has come.
  /// - Throws: `.closed`, `.suspended`, `.usedAfterFork`; in a shared store `.locked` when another
  ///   process has been writing for a minute. What is damaged is in the report.
  /// - Complexity: O(bytes of the store). Nothing else runs on the store meanwhile: of a large one,
  ///   verify a backup.
  public func verify(
    _ progress: (@Sendable (Progress) -> Void)? = nil
  ) async throws(StoreError) -> VerificationReport {
    try await passGate()
    guard engine != nil else { return VerificationReport() }
    try engine!.checkProcess()
    // Read where it is written, so that none is under way.
    let check = engine!.manifestCheck()
    let problem = try await pipeline.run { () throws(StoreError) in check.problem() }
    try checkOpen()
    var report = try walking { () throws(StoreError) in try verifyAll(problem, progress) }
    for _ in 0..<Self.rereadLimit {
      // What another process has removed meanwhile is no damage.
      do throws(StoreError) {
        guard let problem = report.problems.first, try wasReplaced(problem) else { break }
        report = try walking { () throws(StoreError) in try verifyAll(nil, progress) }
      } catch {
        report.problems.append(error)
        break
      }
    }
    return report
  }

  private func verifyAll(
    _ problem: StoreError?, _ progress: (@Sendable (Progress) -> Void)?
  ) throws(StoreError) -> VerificationReport {
    var report = VerificationReport()
    if let problem { report.problems.append(problem) }
    do throws(StoreError) {
      try engine!.admitAll()
    } catch {
      report.problems.append(error)
      return report
    }
    let total = statistics.diskBytes
    var live = LiveSummary()
    for slot in engine!.table.readingOrder {
      do throws(StoreError) {
        try verifySegment(slot, total, &live, &report, progress)
      } catch {
        report.problems.append(error)
      }
    }
    // Where a segment could not be read, what is missing follows from that.
    guard report.problems.isEmpty else { return report }
    if live.count != engine!.index.count {
      report.problems.append(
        .indexDamaged(
          "\(live.count) live records, but \(engine!.index.count) keys", checkpointNames.first))
    } else if live.digest != engine!.digest {
      report.problems.append(
        .indexDamaged(
          "the state digest does not match the live records", checkpointNames.first))
    }
    return report
  }

  private func verifySegment(
    _ slot: Int, _ total: UInt64, _ live: inout LiveSummary, _ report: inout VerificationReport,
    _ progress: (@Sendable (Progress) -> Void)?
  ) throws(StoreError) {
    try engine!.table.verifyHeader(slot, storeID: engine!.manifest.storeID)
    var cursor = LogCursor(slot: slot, keyspace: nil, asksAlways: true)
    while let entry = try engine!.next(&cursor) {
      live.count += 1
      let hash = entry.key.bytes.withBytes { engine!.hash($0, entry.keyspace) }
      live.digest.add(hash: hash, sequence: entry.sequence.rawValue)
      if live.count % 4096 == 0 {
        let within = UInt64(cursor.offset ?? 0)
        progress?(Progress(completedBytes: report.checkedBytes + within, totalBytes: total))
      }
    }
    report.recordCount += engine!.table[slot].recordCount
    report.checkedBytes += UInt64(engine!.table[slot].end)
    progress?(Progress(completedBytes: report.checkedBytes, totalBytes: total))
  }
}

/// Reads the manifest again.
struct ManifestCheck: Sendable {
  let directory: any StorageDirectory
  let storeID: Identifier

  /// What is wrong with it.
  func problem() -> StoreError? {
    do throws(StoreError) {
      let manifest = try Opener.readManifest(directory, Listing(directory))
      if manifest?.storeID == storeID { return nil }
      return .corrupted("it is missing, or another store's", Manifest.fileName, at: 16)
    } catch {
      return error
    }
  }
}

extension EngineState {
  func manifestCheck() -> ManifestCheck {
    ManifestCheck(directory: directory, storeID: manifest.storeID)
  }
}

/// What the log holds that is live, to be compared with the index.
private struct LiveSummary {
  var count = 0
  var digest = StateDigest()
}

extension SegmentTable {
  /// Reads a segment's header again.
  ///
  /// - Throws: `.corrupted` when it is damaged, or not the one that was there at opening.
  func verifyHeader(_ slot: Int, storeID: Identifier) throws(StoreError) {
    let name = fileName(slot)
    let bytes = try bytes(of: slot, count: self[slot].firstOffset)
    let header = try formatting(name) { () throws(FormatError) in
      try SegmentHeader(decoding: bytes)
    }
    guard header.storeID == storeID, header.number == infos[slot].number,
      header.epoch == infos[slot].epoch
    else {
      throw .corrupted("this segment belongs to another store or another life of it", name, at: 16)
    }
  }
}
