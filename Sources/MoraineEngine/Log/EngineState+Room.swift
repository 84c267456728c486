import MoraineFormat
import MoraineStorage
import Synchronization

extension EngineState {
  static let smallestAllocation = 64 << 10
  /// Small enough that a commit which waits behind an allocation does not wait long.
  static let largestStep = 1 << 20
  /// Small segments cost a sync and two manifests each.
  static let smallSegmentBytes = 8 << 20

  /// What the next segment will be, for a unit of `count` bytes. Its number is taken from now on.
  mutating func nextBirth(for count: Int) -> SegmentBirth {
    let number = takeSegmentNumber()
    var header = SegmentHeader(
      storeID: manifest.storeID, epoch: manifest.epoch, number: number,
      salt: Machine.randomNumber())
    header.generation = manifest.generation + 1
    header.createdMilliseconds = Machine.wallMilliseconds()
    if let last = table.order.last {
      header.predecessor = SegmentHeader.Predecessor(
        number: table.infos[last].number.rawValue, lengthBytes: UInt64(table[last].end),
        lastSequence: SequenceNumber(rawValue: lastSequence))
    }
    let needed = header.headerLength + count + ActiveSegment.reservedBytes
    let limit = max(min(configuration.segmentSizeBytes, fittingSegmentBytes), needed)
    let wish = max(Self.smallestAllocation, min(Self.largestStep, Int(clamping: liveBytes / 8)))
    let first = min(limit, max(needed, wish))
    return SegmentBirth(
      directory: directory, header: header, wantedLimit: limit,
      firstAllocation: FileBlock.covering(first), neededBytes: needed,
      wantsMapping: configuration.ioMode == .mapped, prefaulting: nextPrefaulting(),
      isOneTooMany: table.vacancyCount < 2)
  }

  /// A sixteenth of what is live, within bounds: the active segment cannot be compacted, so in a
  /// small store a large one would be most of it.
  var fittingSegmentBytes: Int { max(Self.smallSegmentBytes, Int(clamping: liveBytes / 16)) }

  /// About how much will be appended before room must be made again.
  func nextStepBytes() -> Int {
    guard let active else { return 0 }
    return min(active.allocated == nil ? active.limit : active.step, Self.largestStep)
  }

  /// Takes a born segment into the table as the one to append to.
  ///
  /// - Returns: the segment that was active before, its footer written.
  mutating func adopt(
    _ child: SegmentBirth.Child, _ birth: SegmentBirth
  ) -> (segment: ActiveSegment, markedOffset: Int)? {
    let before = active.map { ($0, place.markedOffset) }
    let header = birth.header
    let length = header.headerLength
    let info = SegmentInfo(
      number: header.number, epoch: header.epoch, salt: header.salt, mapping: child.mapping)
    let slot = table.append(
      SegmentView(base: child.mapping?.base, end: length, seed: header.checksumSeed), info)
    if child.mapping == nil { table.lend(child.file, for: slot) }
    if configuration.isAlone { child.file.allowParking() }
    active = ActiveSegment(
      slot: slot, file: child.file, mapping: child.mapping, allocated: child.allocated,
      limit: child.limit, step: birth.firstAllocation,
      softEnd: link == nil ? (child.allocated ?? 0) / 2 : .max)
    place.markedOffset = length
    return before
  }

  /// How far to allocate so that `count` bytes fit: doubling, up to the segment's end.
  func extensionTargets(for count: Int) -> (wish: Int, least: Int)? {
    guard let active, let allocated = active.allocated else { return nil }
    let needed = table[active.slot].end + count + ActiveSegment.reservedBytes
    let top = FileBlock.covering(active.limit)
    let least = min(top, FileBlock.covering(needed))
    return (min(top, max(least, allocated + min(active.step, Self.largestStep))), least)
  }

  mutating func extended(to allocated: Int) {
    guard let before = active?.allocated else { return }
    let gain = allocated - before
    active?.allocated = allocated
    // Beside other processes nothing is allocated once the lock is free.
    let isAlone = link == nil
    active?.softEnd = isAlone ? allocated - gain / 2 : .max
    active?.step = min(Self.largestStep, max(Self.smallestAllocation, gain * 2))
  }

  mutating func extensionWork(for count: Int) -> ExtensionWork? {
    guard let active, let allocated = active.allocated, let targets = extensionTargets(for: count)
    else { return nil }
    return ExtensionWork(
      file: active.file, mapping: active.mapping, from: allocated, wish: targets.wish,
      least: targets.least, prefaulting: nextPrefaulting())
  }

  /// What suits the work since this was asked last.
  mutating func nextPrefaulting() -> Prefaulting {
    let syncCount = pipeline.syncCount
    defer { (place.hasCalled, place.syncCount) = (false, syncCount) }
    if place.hasCalled || syncCount >= place.syncCount + 2 { return .none }
    return link == nil ? .filling : .touching
  }

  /// Has more allocated while appending goes on.
  mutating func extendAhead() {
    guard let work = extensionWork(for: 0) else { return }
    let ticket = ExtensionTicket()
    let lock = lock
    pipeline.enqueue { refusal in
      guard refusal == nil else { return }
      // Nobody else may have the directory while this runs, even if the store is gone by then.
      defer { withExtendedLifetime(lock) {} }
      do throws(StorageError) {
        ticket.allocatedEnd.store(try work.run(), ordering: .releasing)
      } catch {
        // Whoever needs the space asks again, waits, and is told why there is none.
      }
    }
    active?.ticket = ticket
  }

  /// Makes use of what ``extendAhead()`` has allocated, if it has.
  mutating func redeemTicket() {
    guard let ticket = active?.ticket, let allocated = active?.allocated else { return }
    let end = ticket.allocatedEnd.load(ordering: .acquiring)
    active?.ticket = nil
    if end > allocated { extended(to: end) }
  }
}

extension EngineState {
  /// Takes back a segment that no manifest came to list.
  mutating func abandonActive(for before: (segment: ActiveSegment, markedOffset: Int)?) {
    let abandoned = active?.slot
    if let abandoned { giveBack(table.infos[abandoned].number) }
    active = before?.segment
    if let abandoned { table.drop(abandoned) }
    place.markedOffset = before?.markedOffset ?? 0
  }

  mutating func takeSegmentNumber() -> SegmentNumber {
    let least = manifest.nextSegmentNumber
    let number = link?.page.takeSegmentNumber(least) ?? least
    manifest.nextSegmentNumber = number &+ 1
    return SegmentNumber(rawValue: number)
  }

  /// The next attempt takes the same number, and so removes what the last one left, unless another
  /// number was taken since. Not when it was the manifest's publication that failed half-way: it
  /// may list the number.
  mutating func giveBack(_ number: SegmentNumber) {
    if pipeline.hasPoison || link != nil { return }
    if manifest.nextSegmentNumber == number.rawValue &+ 1 {
      manifest.nextSegmentNumber = number.rawValue
    }
  }
}
