import MoraineFormat
import MoraineStorage

extension Store {
  /// Reads every byte of the store again and checks it: the manifest, headers, checksums, and the
  /// decompression of all values, live or not. Then compares the log with the data that is derived
  /// from it: every entry of the index, the figures of each segment and keyspace, the footers and
  /// the manifest. Compares the entries of repositories' indexes with the models' rows, both ways.
  /// Damaged pages of the index checkpoint are reported once: the index is then read
  /// from the log.
  ///
  /// - Parameter progress: called now and then with the progress so far.
  /// - Throws: `.closed`, `.suspended`, `.usedAfterFork`; in a shared store `.locked` when another
  ///   process has been writing for a minute. Damage is not thrown: the report lists it.
  /// - Complexity: O(bytes of the store); O(bytes · n) where the log has n million keys that were
  ///   deleted and not compacted yet. Memory: a constant. Nothing else runs on the store while it
  ///   is verified: instead of a large store, verify a backup of it.
  public func verify(
    onProgress progress: (@Sendable (Store.Progress) -> Void)? = nil
  ) async throws(StoreError) -> VerificationReport {
    try await passGate()
    guard engine != nil else { return VerificationReport() }
    try engine!.checkProcess()
    // The check runs on the thread that writes manifests, so that no write is under way.
    let check = engine!.manifestCheck()
    let problem = try await pipeline.run { () throws(StoreError) in check.problem() }
    try await checkOpen()
    guard engine != nil else { return VerificationReport() }
    var report = try verifyAll(problem, progress)
    for _ in 0..<Self.rereadLimit {
      // A file that another process has removed since is no damage.
      do throws(StoreError) {
        guard let problem = report.problems.first, try await wasReplaced(problem),
          engine != nil
        else { break }
        report = try verifyAll(nil, progress)
      } catch {
        report.problems.append(error)
        break
      }
    }
    return report
  }

  private func verifyAll(
    _ problem: StoreError?, _ progress: (@Sendable (Store.Progress) -> Void)?
  ) throws(StoreError) -> VerificationReport {
    var report = VerificationReport()
    if let problem { report.problems.append(problem) }
    let known = engine!.report.checkpointProblem
    do throws(StoreError) {
      try engine!.validateAllPages()
    } catch {
      report.problems.append(error)
      return report
    }
    // The damaged index was replaced in memory just now, and is still on disk.
    if known == nil, let problem = engine!.report.checkpointProblem {
      report.problems.append(problem)
    }
    var audit = LogAudit(totalBytes: knownStatistics.diskBytes, progress)
    audit.run(&engine!)
    let found = audit.report
    report.problems += found.problems
    // Damaged records would be reported once more.
    if found.problems.isEmpty { report.problems += engine!.indexProblems() }
    (report.recordCount, report.checkedBytes) = (found.recordCount, found.checkedBytes)
    return report
  }
}

/// A check that reads the manifest again.
struct ManifestCheck: Sendable {
  let directory: any StorageDirectory
  let storeID: StoreIdentifier

  /// Returns the error of the manifest, if there is one.
  func problem() -> StoreError? {
    do throws(StoreError) {
      let manifest = try ManifestFile.read(directory, DirectoryContents(directory))
      if manifest?.storeID == storeID { return nil }
      return .corrupted(
        "the manifest is missing or belongs to another store", Manifest.fileName, at: 16)
    } catch {
      return error
    }
  }
}

extension EngineState {
  func manifestCheck() -> ManifestCheck {
    ManifestCheck(directory: directory, storeID: log.manifest.storeID)
  }

  /// Throws `.corrupted` when the file of a mapped segment is missing. The mapping keeps the bytes,
  /// but the next opening needs the file.
  func checkFile(of slot: Int) throws(StoreError) {
    guard log.table.infos[slot].mapping != nil else { return }
    let name = log.table.fileName(slot)
    let file = try storing { () throws(StorageError) in try directory.openFile(name, .read) }
    guard file == nil else { return }
    throw StoreError(.corrupted, "a segment file is missing; restore it", file: name)
  }
}

extension SegmentTable {
  /// Reads a segment's header again.
  ///
  /// - Throws: `.corrupted` when the header is damaged, or is not the header that was read at
  ///   opening.
  func verifyHeader(_ slot: Int, storeID: StoreIdentifier) throws(StoreError) {
    let name = fileName(slot)
    let bytes = try bytes(of: slot, count: self[slot].firstOffset)
    let header = try formatting(name) { () throws(FormatError) in
      try SegmentHeader(decoding: bytes)
    }
    guard header.storeID == storeID, header.number == infos[slot].number,
      header.epoch == infos[slot].epoch
    else {
      throw .corrupted("the header names another store, segment number or epoch", name, at: 16)
    }
  }
}
