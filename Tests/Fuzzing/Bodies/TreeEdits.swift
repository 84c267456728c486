import MoraineFormat

/// Changes the trees of a checkpoint, and the part of its head that describes them, one field at a
/// time: an edit names a node, a kind of field, and which of them.
struct TreeEdits {
  /// The head of the checkpoint before the edits.
  let header: CheckpointHeader

  /// The place of the first tree in the head.
  private var firstTree: Int {
    CheckpointHeader.fixedLength + header.segments.count * 112 + (header.keyspaces?.count ?? 0) * 24
  }

  init(of files: StoreFiles) throws {
    guard let name = files.checkpointName, let bytes = files[name] else {
      throw Finding("there is no checkpoint")
    }
    header = try bytes.withUnsafeBytes { bytes in
      let length = try CheckpointHeader.claimedLength(bytes)
      return try CheckpointHeader(decoding: UnsafeRawBufferPointer(rebasing: bytes[..<length]))
    }
  }

  /// An edit: what to do, the node, the kind of field, its number (2 bytes), and what the operation
  /// needs.
  func apply(_ input: inout FuzzInput, to bytes: inout [UInt8]) {
    let operation = input.byte()
    let field = field(&input, isHead: operation & 8 != 0, bytes)
    guard field.upperBound <= bytes.count else { return }
    switch operation & 7 {
    case 0: bytes[field.upperBound - 1] ^= input.byte()
    case 1: add(Int(Int8(bitPattern: input.byte())), to: field, &bytes)
    case 2:
      for (offset, byte) in input.take(field.count).enumerated() {
        bytes[field.lowerBound + offset] = byte
      }
    case 3, 4:
      let other = self.field(&input, isHead: operation & 8 != 0, bytes)
      guard other.count == field.count, other.upperBound <= bytes.count else { return }
      for (one, two) in zip(field, other) {
        if operation & 7 == 3 { bytes[one] = bytes[two] } else { bytes.swapAt(one, two) }
      }
    case 5:
      // The next field of the same kind, if there is one.
      guard field.upperBound + field.count <= bytes.count else { return }
      for place in field { bytes.swapAt(place, place + field.count) }
    case 6: exchangeNodes(input.integer(byteCount: 2), input.byte() & 1 != 0, &bytes)
    default:
      // Truncates or extends the file.
      let length = input.integer(byteCount: 3)
      if length < bytes.count {
        bytes.removeSubrange(length...)
      } else {
        bytes += [UInt8](repeating: 1, count: min(length - bytes.count, 1 << 16))
      }
    }
  }

  private func add(_ difference: Int, to field: Range<Int>, _ bytes: inout [UInt8]) {
    var carry = difference
    for place in field {
      let sum = Int(bytes[place]) + carry
      bytes[place] = UInt8(truncatingIfNeeded: sum)
      carry = sum >> 8
    }
  }

  private func node(_ number: Int) -> Int {
    header.treeOffset + number % max(1, Int(header.nodeCount)) * CheckpointHeader.nodeBytes
  }

  /// Copies a node over another one, or exchanges two.
  private func exchangeNodes(_ pair: Int, _ isCopy: Bool, _ bytes: inout [UInt8]) {
    let (one, two) = (node(pair & 255), node(pair >> 8))
    guard max(one, two) + CheckpointHeader.nodeBytes <= bytes.count else { return }
    for offset in 0..<CheckpointHeader.nodeBytes where one != two {
      if isCopy {
        bytes[one + offset] = bytes[two + offset]
      } else {
        bytes.swapAt(one + offset, two + offset)
      }
    }
  }

  private func field(_ input: inout FuzzInput, isHead: Bool, _ bytes: [UInt8]) -> Range<Int> {
    let (number, kind) = (Int(input.byte()), Int(input.byte()))
    let index = input.integer(byteCount: 2)
    if isHead { return headField(number, kind, index) }
    let start = node(number)
    let isBranch = bytes.load(UInt16.self, at: start + 2) != 0
    return isBranch ? branchField(start, kind, index, bytes) : leafField(start, kind, index, bytes)
  }

  private func headField(_ number: Int, _ kind: Int, _ index: Int) -> Range<Int> {
    let tree = firstTree + number % max(1, header.trees.count) * 16
    switch kind % 8 {
    case 0: return tree..<tree + 2
    case 1: return tree + 2..<tree + 3
    case 2: return tree + 4..<tree + 8
    case 3: return tree + 8..<tree + 16
    case 4: return [64..<72, 116..<118, 118..<120, 120..<124, 104..<108, 48..<64][index % 6]
    case 5:
      // The figures of a keyspace.
      let place = firstTree - (1 + number % max(1, header.keyspaces?.count ?? 0)) * 24
      return [place..<place + 2, place + 8..<place + 16, place + 16..<place + 24][index % 3]
    default:
      // A number in the entry of a segment.
      let count = max(1, header.segments.count * 14)
      let place = CheckpointHeader.fixedLength + index % count * 8
      return place..<place + 8
    }
  }

  private func leafField(
    _ start: Int, _ kind: Int, _ index: Int, _ bytes: [UInt8]
  ) -> Range<Int> {
    let isTied = bytes.load(UInt16.self, at: start + 6) == 1
    let capacity = isTied ? 324 : 390
    // Most fields of a leaf are not in use.
    let count = max(1, min(Int(bytes.load(UInt16.self, at: start)), capacity))
    func at(_ offset: Int, _ length: Int) -> Range<Int> {
      start + offset..<start + offset + length
    }
    switch kind % 10 {
    case 0: return at(0, 2)
    case 1: return [at(2, 2), at(6, 2), at(8, 2)][index % 3]
    case 2: return at(4, 2)
    case 3: return at(10 + index % 54, 1)
    case 4: return at(64 + index % 32 * 4, 4)
    case 5: return at(192 + index % count * 4, 4)
    case 6, 7: return at(192 + capacity * 4 + index % count * 6, 6)
    case 8: return at(3432 + index % count, 1)
    default: return at(3756 + index % count, 1)
    }
  }

  private func branchField(
    _ start: Int, _ kind: Int, _ index: Int, _ bytes: [UInt8]
  ) -> Range<Int> {
    let count = max(1, min(Int(bytes.load(UInt16.self, at: start)), 290))
    func at(_ offset: Int, _ length: Int) -> Range<Int> {
      start + offset..<start + offset + length
    }
    let children = 16 + (count - 1) * 4
    let ends = children + count * 8
    let separators = ends + (count - 1) * 2
    switch kind % 8 {
    case 0: return at(0, 2)
    case 1: return at(2, 2)
    case 2: return at(4, 2)
    case 3: return at(16 + index % count * 4, 4)
    case 4: return at(children + index % count * 4, 4)
    case 5: return at(children + count * 4 + index % count * 4, 4)
    case 6: return at(ends + index % count * 2, 2)
    default: return at(separators + index % max(1, CheckpointHeader.nodeBytes - separators), 1)
    }
  }
}
