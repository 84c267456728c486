import MoraineFormat
import MoraineStorage

extension EngineState {
  static let smallestAllocation = 64 << 10
  static let largestStep = 16 << 20

  /// What the next segment will be, for a unit of `count` bytes.
  func nextBirth(for count: Int) -> SegmentBirth {
    let number = SegmentNumber(rawValue: manifest.nextSegmentNumber)
    var header = SegmentHeader(
      storeID: manifest.storeID, epoch: manifest.epoch, number: number,
      salt: Machine.randomNumber())
    header.generation = manifest.generation + 1
    header.createdMilliseconds = Machine.wallMilliseconds()
    if let last = (0..<table.count).last {
      header.predecessor = SegmentHeader.Predecessor(
        number: table.infos[last].number.rawValue, lengthBytes: UInt64(table[last].end),
        lastSequence: SequenceNumber(rawValue: lastSequence))
    }
    let needed = header.headerLength + count + SyncMark.recordLength + SegmentFooter.recordLength
    let limit = max(configuration.segmentSizeBytes, needed)
    let wish = max(Self.smallestAllocation, min(Self.largestStep, Int(clamping: liveBytes / 8)))
    let first = min(limit, max(needed, wish))
    return SegmentBirth(
      directory: directory, header: header, limit: limit,
      firstAllocation: (first + 4095) & ~4095, wantsMapping: configuration.ioMode == .mapped)
  }

  /// Takes a born segment into the table as the one to append to.
  mutating func adopt(_ child: SegmentBirth.Child, _ birth: SegmentBirth) {
    let header = birth.header
    let length = header.headerLength
    let info = SegmentInfo(number: header.number, epoch: header.epoch, mapping: child.mapping)
    let slot = table.append(
      SegmentView(base: child.mapping?.base, end: length, seed: header.checksumSeed), info)
    if child.mapping == nil { table.lend(child.file, for: slot) }
    active = ActiveSegment(
      slot: slot, file: child.file, mapping: child.mapping, allocated: child.allocated,
      limit: birth.limit, headerLength: length, step: birth.firstAllocation)
    place.markedOffset = length
    manifest.nextSegmentNumber = header.number.rawValue + 1
  }

  /// How far to allocate so that `count` bytes fit: doubling, up to the segment's end.
  func extensionTargets(for count: Int) -> (wish: Int, least: Int)? {
    guard let active, let allocated = active.allocated else { return nil }
    let needed =
      table[active.slot].end + count + SyncMark.recordLength + SegmentFooter.recordLength
    let top = (active.limit + 4095) & ~4095
    let least = min(top, (needed + 4095) & ~4095)
    return (min(top, max(least, allocated + min(active.step, Self.largestStep))), least)
  }

  mutating func extended(to allocated: Int) {
    guard let before = active?.allocated else { return }
    active?.allocated = allocated
    active?.step = min(Self.largestStep, max(Self.smallestAllocation, (allocated - before) * 2))
  }
}

/// Allocates more of the active segment, on the committing thread.
struct ExtensionWork: Sendable {
  let file: any StorageFile
  let mapping: (any FileMapping)?
  let from: Int
  let wish: Int
  let least: Int

  /// - Returns: where the allocated part ends now.
  func run() throws(StorageError) -> Int {
    var end = wish
    do throws(StorageError) {
      try file.allocate(from: UInt64(from), to: UInt64(wish))
    } catch {
      guard error.isNoSpace, least < wish else { throw error }
      try file.allocate(from: UInt64(from), to: UInt64(least))
      end = least
    }
    mapping?.prefault(from: from, to: end)
    return end
  }
}

extension EngineState {
  /// Takes back a segment that no manifest came to list.
  mutating func abandonActive() {
    guard let active else { return }
    table.infos[active.slot].isDropped = true
    self.active = nil
  }
}
