import MoraineFormat

/// Changes a checkpoint file, which is longer than a good input: each edit says where, what and
/// how.
enum CheckpointEdits {
  /// Each edit: operation and region, place (2 bytes), how many bytes, the bytes.
  static func apply(_ input: inout FuzzInput, to bytes: inout [UInt8]) {
    // Places that hold something: most of the file is zeros.
    let written = bytes.indices.filter { bytes[$0] != 0 }
    let firstPage = headLength(bytes)
    let entries = written.filter { $0 >= firstPage }
    while !input.isAtEnd, !bytes.isEmpty {
      let operation = input.byte()
      let raw = input.integer(byteCount: 2)
      var place =
        switch operation & 3 {
        case 0: raw % min(1024, bytes.count)
        case 1 where !entries.isEmpty: min(entries[raw % entries.count] & ~7, bytes.count - 1)
        case 2 where !written.isEmpty: min(written[raw % written.count], bytes.count - 1)
        default: raw * 8 % bytes.count
        }
      // The last slot of its bucket, which may hold a link.
      if operation & 16 != 0, place >= firstPage {
        place = min(firstPage + (place - firstPage | 56), bytes.count - 1)
      }
      switch operation >> 2 & 3 {
      case 0:
        for (offset, byte) in input.take(Int(input.byte()) % 16 + 1).enumerated()
        where place + offset < bytes.count { bytes[place + offset] = byte }
      case 1: bytes[place] ^= input.byte()
      case 2: bytes[place] &+= 1
      default:
        // Truncates or extends the file.
        if input.byte() & 1 == 0 {
          bytes.removeSubrange(place...)
        } else {
          bytes += [UInt8](repeating: input.byte(), count: raw * 2)
        }
      }
    }
  }

  static func headLength(_ bytes: [UInt8]) -> Int { Int(bytes.load(UInt32.self, at: 12)) }

  /// Corrects the checksums of every page and of the header.
  static func mend(_ bytes: inout [UInt8]) {
    let head = headLength(bytes)
    let keyspaceCount = Int(bytes.load(UInt16.self, at: 116))
    let first =
      CheckpointHeader.fixedLength + Int(bytes.load(UInt32.self, at: 76)) * 112
      // No keyspaces follow when they were not counted.
      + (keyspaceCount == 0xFFFF ? 0 : keyspaceCount * 24)
      + Int(bytes.load(UInt16.self, at: 118)) * 16
    let pageCount = Int(bytes.load(UInt32.self, at: 104))
    var header = CheckpointHeader(storeID: StoreIdentifier(low: 0, high: 0))
    header.salt = bytes.load(UInt64.self, at: 108)
    for page in 0..<min(pageCount, 16) {
      let start = head + page * CheckpointHeader.pageBytes
      guard start + CheckpointHeader.pageBytes <= bytes.count else { break }
      let checksum = bytes.withUnsafeBytes {
        header.checksum(
          ofPage: page,
          UnsafeRawBufferPointer(rebasing: $0[start..<start + CheckpointHeader.pageBytes]))
      }
      bytes.store(checksum, at: first + page * 4)
    }
    guard head >= 4, head <= bytes.count else { return }
    bytes.store(Checksum.of(Array(bytes[..<(head - 4)])), at: head - 4)
  }
}
