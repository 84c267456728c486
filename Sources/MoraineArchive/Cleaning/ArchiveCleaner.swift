import MoraineFormat

/// The facts that a cleaning has read. They do not change, so the next cleaning of the same process
/// need not read them again. All but ``unfinished`` hold for cleanings with the same rule only.
struct CleaningMemory: Sendable {
  /// Checkpoints, by number.
  fileprivate var records: [UInt64: CheckpointRecord] = [:]
  /// The objects that the contents of a checkpoint or of a gap name.
  fileprivate var names: [DataObjectName: [DataObjectName]] = [:]
  /// The contents that commits name, by position. Complete up to ``scannedPosition``.
  fileprivate var gaps: [UInt64: ContentsReference] = [:]
  fileprivate var scannedPosition: UInt64 = 0
  /// What the cleaning before has left, when it failed.
  var unfinished = UnfinishedRemoval()
}

/// A cleaning: it removes what a rule does not keep.
///
/// 1. Read the newest checkpoint, then ask for the term after that of its writer.
/// 2. Choose the checkpoints that are kept, and the base: the newest checkpoint that is older than
///    the moments to keep. Check that each object that a kept one names exists.
/// 3. Remove the commits below the base, the oldest first. The base's own commit stays: a writer
///    that attaches reads it.
/// 4. Unless the term exists, remove the objects that ``RemovableObjects`` permits, in the order of
///    ``RemovalOrder``: the contents of a checkpoint before its segments. A whole copy without a
///    checkpoint has lost its commit in step 3: its contents and its segments go in any order.
struct ArchiveCleaner: Sendable {
  /// The number of objects that one request removes.
  private static let batchCount = 250
  /// The number of successive checkpoints without contents after which no older one has any.
  private static let settledCount = 100

  let objects: ArchiveObjects
  let rule: RetentionRule
  let isDryRun: Bool

  private struct Plan {
    var base: CheckpointRecord?
    var kept: [CheckpointRecord] = []
    /// The contents that exist of checkpoints that are not kept, the newest one first.
    var dropped: [ContentsReference] = []
  }

  func run(_ memory: inout CleaningMemory) async throws(ArchiveError) -> CleaningReport {
    var report = CleaningReport()
    guard let newest = try await ArchiveHistory.newestCheckpoint(objects) else { return report }
    // In this order: see `RemovableObjects`.
    let hasLaterTerm = try await hasTerm(after: newest.term)
    let listed = try await dataObjects()
    let plan = try await plan(newest, Set(listed), &memory)
    report.checkpointCount = plan.kept.count
    report.firstPosition = plan.base?.position ?? 0
    report.waitsForCheckpoint = hasLaterTerm
    var removable = RemovableObjects(newestTerm: newest.term)
    try await keep(plan, &removable, &memory, Set(listed))
    report.damagedContents = try await keepGaps(plan, newest, &removable, &memory)
    let removesObjects = !hasLaterTerm && report.damagedContents == nil
    var order = RemovalOrder(memory.unfinished)
    var unfinished = memory.unfinished
    // The oldest one first: `plan` looks for no contents before many checkpoints without contents.
    for reference in plan.dropped.reversed() where removesObjects {
      let names = try await namesUnlessDamaged(reference, &memory)
      order.add(reference.name, names)
      unfinished.contents.insert(reference.name)
      unfinished.segments.formUnion(names)
      memory.names[reference.name] = nil
    }
    if let base = plan.base { report.commitCount = try await removeCommits(below: base) }
    if removesObjects {
      removable.dropped = unfinished.all
      let names = listed.filter(removable.contains)
      report.objectCount = names.count
      if isDryRun { return report }
      memory.unfinished = unfinished
      for group in order.groups(names) { try await remove(group.map(objects.names.data)) }
      memory.unfinished = UnfinishedRemoval()
    }
    return report
  }

  private func hasTerm(after term: UInt64) async throws(ArchiveError) -> Bool {
    guard term < ArchiveLimits.term else { return false }
    return try await objects.hasTerm(term + 1)
  }

  private func dataObjects() async throws(ArchiveError) -> [DataObjectName] {
    try await objects.list(objects.names.dataObjects).compactMap { name in
      guard case .data(let object) = objects.names.object(named: name) else { return nil }
      return object
    }
  }

  private func plan(
    _ newest: CheckpointRecord, _ listed: Set<DataObjectName>, _ memory: inout CleaningMemory
  ) async throws(ArchiveError) -> Plan {
    var plan = Plan()
    var walk = RetentionWalk(rule)
    var removedCount = 0
    for number in stride(from: newest.number, to: 0, by: -1) {
      let record = try await record(number, &memory)
      // A list may be out of date, so an object that it lacks is asked for as long as it matters.
      var isRestorable = listed.contains(record.contents.name)
      if !isRestorable, !walk.isOver {
        isRestorable = try await objects.exists(objects.names.data(record.contents.name))
      }
      guard isRestorable || number < newest.number else {
        throw missing(objects.names.data(record.contents.name))
      }
      let hadBase = walk.hasBase
      switch walk.verdict(record.milliseconds, isRestorable: isRestorable) {
      case .moments, .state: plan.kept.append(record)
      case .nothing: if isRestorable { plan.dropped.append(record.contents) }
      }
      if !hadBase, walk.hasBase { plan.base = record }
      removedCount = isRestorable ? 0 : removedCount + 1
      if walk.isOver, removedCount >= Self.settledCount { break }
    }
    return plan
  }

  private func record(
    _ number: UInt64, _ memory: inout CleaningMemory
  ) async throws(ArchiveError) -> CheckpointRecord {
    if let known = memory.records[number] { return known }
    guard let record = try await objects.checkpoint(number) else {
      throw missing(objects.names.checkpoint(number))
    }
    memory.records[number] = record
    return record
  }

  /// Adds the objects that stay, and checks that they exist.
  private func keep(
    _ plan: Plan, _ removable: inout RemovableObjects, _ memory: inout CleaningMemory,
    _ listed: Set<DataObjectName>
  ) async throws(ArchiveError) {
    for record in plan.kept {
      let names = try await names(record.contents, &memory)
      for name in [record.contents.name] + names where removable.kept.insert(name).inserted {
        if listed.contains(name) { continue }
        let object = objects.names.data(name)
        guard try await objects.exists(object) else { throw missing(object) }
      }
    }
  }

  /// Adds the objects of the whole copies that commits name.
  ///
  /// - Returns: an object that is there and cannot be read. The objects that it names are not known
  ///   then. A proxy may have given one wrong answer, so that removes nothing.
  private func keepGaps(
    _ plan: Plan, _ newest: CheckpointRecord, _ removable: inout RemovableObjects,
    _ memory: inout CleaningMemory
  ) async throws(ArchiveError) -> ObjectName? {
    var damaged: ObjectName?
    for reference in try await gaps(plan, newest, &memory) {
      removable.kept.insert(reference.name)
      let object = objects.names.data(reference.name)
      do throws(ArchiveError) {
        removable.kept.formUnion(try await names(reference, &memory))
      } catch {
        guard error.code == .damaged else { throw error }
        // Without its contents a copy can no more be restored.
        if try await objects.exists(object) { damaged = object }
      }
    }
    return damaged
  }

  /// Returns the objects that contents name.
  private func names(
    _ reference: ContentsReference, _ memory: inout CleaningMemory
  ) async throws(ArchiveError) -> [DataObjectName] {
    if let known = memory.names[reference.name] { return known }
    do throws(ArchiveError) {
      let names = try await objects.contents(reference).segments.map(\.object)
      memory.names[reference.name] = names
      return names
    } catch {
      throw error.code == .stateUnavailable ? missing(objects.names.data(reference.name)) : error
    }
  }

  /// Returns the objects that contents name; none of damaged contents. Objects that those name are
  /// removed when their term is over.
  private func namesUnlessDamaged(
    _ reference: ContentsReference, _ memory: inout CleaningMemory
  ) async throws(ArchiveError) -> [DataObjectName] {
    do throws(ArchiveError) {
      return try await names(reference, &memory)
    } catch {
      guard error.code == .damaged else { throw error }
      return []
    }
  }

  /// Returns the contents that commits of earlier writers name. The newest writer has made a
  /// checkpoint of each contents that its own commits name.
  private func gaps(
    _ plan: Plan, _ newest: CheckpointRecord, _ memory: inout CleaningMemory
  ) async throws(ArchiveError) -> [ContentsReference] {
    let base = plan.base?.position ?? 0
    memory.gaps = memory.gaps.filter { $0.key > base }
    var position = max(base, memory.scannedPosition) + 1
    while position <= newest.position {
      if let header = try await objects.header(position) {
        if header.term >= newest.term { break }
        if let contents = header.contents { memory.gaps[position] = contents }
      } else {
        // An earlier cleaning kept less: the commits go on after a checkpoint that it has kept.
        let next = plan.kept.map(\.position).filter { $0 > position }.min()
        position = next ?? newest.position
      }
      memory.scannedPosition = position
      position += 1
    }
    return Array(memory.gaps.values)
  }

  private func removeCommits(below base: CheckpointRecord) async throws(ArchiveError) -> Int {
    let names = try await objects.list(
      objects.names.commits, before: objects.names.commit(base.position))
    let commits = names.filter { name in
      guard case .commit(let position) = objects.names.object(named: name) else { return false }
      return position < base.position
    }
    try await remove(commits)
    return commits.count
  }

  private func remove(_ names: [ObjectName]) async throws(ArchiveError) {
    if isDryRun { return }
    for start in stride(from: 0, to: names.count, by: Self.batchCount) {
      try await objects.remove(Array(names[start..<min(start + Self.batchCount, names.count)]))
    }
  }

  private func missing(_ name: ObjectName) -> ArchiveError {
    ArchiveError(
      .damaged,
      "an object is missing that a state needs which is kept; nothing was removed. "
        + "Make a checkpoint of the store, and clean again", object: name)
  }
}

/// The rule which data objects may be removed, by any process and at any time afterwards.
///
/// An object is named again only by a writer that uploads it, or by one that has read a checkpoint
/// that names it. So an object of which the following holds is never named again:
///
/// * The newest checkpoint N does not name it.
/// * When the term after that of N's writer was absent, N existed already: so each writer that
///   attaches later reads N, or a newer checkpoint.
/// * Its own writer can name it no more: either it has a lower term than N, which excludes it from
///   new checkpoints and commits, or it has named the object in a checkpoint before N. A segment
///   that was in a checkpoint and is not in a later one does not come back.
package struct RemovableObjects {
  /// The term of the writer of the newest checkpoint.
  package let newestTerm: UInt64
  /// The objects that a checkpoint that is kept names, or a commit that is kept.
  package var kept: Set<DataObjectName> = []
  /// The objects that a checkpoint that is not kept names.
  package var dropped: Set<DataObjectName> = []

  package init(newestTerm: UInt64) { self.newestTerm = newestTerm }

  package func contains(_ object: DataObjectName) -> Bool {
    if kept.contains(object) { return false }
    return object.term < newestTerm || dropped.contains(object)
  }
}
