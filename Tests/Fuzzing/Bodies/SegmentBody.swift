import MoraineEngine
import MoraineFormat

/// A store of one segment whose file is the input.
enum SegmentBody {
  private static let isHeaderGiven = FuzzFlags(rawValue: 1)
  private static let isUntouched = FuzzFlags(rawValue: 2)
  private static let isSealed = FuzzFlags(rawValue: 4)
  private static let isPositional = FuzzFlags(rawValue: 8)
  private static let hasWatermark = FuzzFlags(rawValue: 16)
  private static let isCut = FuzzFlags(rawValue: 32)
  private static let isClustered = FuzzFlags(rawValue: 64)
  private static let isOrdered = FuzzFlags(rawValue: 128)

  static func run(_ input: inout FuzzInput) async throws {
    let flags = FuzzFlags(&input)
    let watermark = flags.contains(hasWatermark) ? UInt64(input.integer(byteCount: 2)) : 0
    let segment = segment(&input, flags)
    var entry = Manifest.Segment(number: SegmentBytes.number, epoch: 1)
    var manifest = Manifest(
      storeID: SegmentBytes.storeID, instanceID: StoreIdentifier(low: 6, high: 7),
      hashKey: SegmentBytes.hashKey)
    manifest.generation = 1
    manifest.nextSegmentNumber = 2
    var keys: [Key] = []
    var state: [Place: (sequence: UInt64, digest: StateDigest?)] = [:]
    segment.forEachRecord { _, record, base in
      guard record.kind == .put || record.kind == .delete else { return }
      let key = UnsafeRawBufferPointer(start: base + record.keyOffset, count: record.keyLength)
      let hash = KeyHash.hash(key, keyspace: record.keyspace, with: SegmentBytes.hashKey)
      let place = Place(keyspace: record.keyspace, key: Array(key))
      if state[place]?.sequence ?? 0 < record.sequence {
        let digest = StateDigest.of(hash: hash, sequence: record.sequence)
        state[place] = (record.sequence, record.kind == .put ? digest : nil)
      }
      keys.append(Key(place.key))
      entry.recordCount += 1
      let sequence = SequenceNumber(rawValue: record.sequence)
      let isFirst = entry.recordCount == 1
      entry.firstSequence = isFirst ? sequence : min(entry.firstSequence, sequence)
      entry.lastSequence = max(entry.lastSequence, sequence)
    }
    if flags.contains(isSealed) {
      entry.flags = flags.contains(isCut) ? [.sealed, .cut] : .sealed
      entry.lengthBytes = UInt64(segment.bytes.count)
      manifest.lastSequence = entry.lastSequence
      for record in state.values { record.digest.map { manifest.digest.add($0) } }
      if flags.contains(isClustered) { entry.flags.formUnion([.compacted, .clustered]) }
    } else {
      entry = Manifest.Segment(number: SegmentBytes.number, epoch: 1)
      manifest.watermarkSegment = watermark > 0 ? 1 : 0
      manifest.watermarkOffset = watermark
    }
    manifest.segments = [entry]
    if flags.contains(isOrdered) { manifest.ordered = [0] }
    let files = StoreFiles([
      Manifest.fileName: manifest.encoded(), SegmentBytes.number.fileName: segment.bytes,
    ])
    try await StoreProbe.run(
      files, .fuzzing(flags.contains(isPositional) ? .positional : .mapped), keys: keys)
  }

  private struct Place: Hashable {
    let keyspace: UInt16
    let key: [UInt8]
  }

  private static func segment(_ input: inout FuzzInput, _ flags: FuzzFlags) -> SegmentBytes {
    var segment: SegmentBytes
    if flags.contains(isHeaderGiven) {
      segment = SegmentBytes(input.rest())
    } else {
      segment = SegmentBytes(records: input.rest())
    }
    if flags.contains(isClustered) { segment.setClustered() }
    if flags.contains(isHeaderGiven), !flags.contains(isUntouched) { segment.mendHeader() }
    if !flags.contains(isUntouched) { segment.mendRecords() }
    return segment
  }
}
