import Foundation
import MoraineFormat
import Testing

/// Changes a store's files and corrects every checksum, as an enemy who knows the format does.
struct Forgery {
  let directory: TestDirectory

  private var manifestURL: URL { directory.store.appendingPathComponent("MANIFEST") }

  func changeManifest(_ change: (inout [UInt8]) -> Void) throws {
    var bytes = [UInt8](try Data(contentsOf: manifestURL))
    bytes.removeLast(4)
    change(&bytes)
    bytes.store(UInt32(bytes.count + 4), at: 12)
    bytes.append(contentsOf: [0, 0, 0, 0])
    bytes.store(Checksum.of(Array(bytes.dropLast(4))), at: bytes.count - 4)
    try Data(bytes).write(to: manifestURL)
  }

  func changeHeader(_ change: (inout [UInt8]) -> Void) throws {
    try changeSegment { bytes in
      change(&bytes)
      bytes.store(Checksum.of(Array(bytes[..<124])), at: 124)
    }
  }

  /// - Parameter change: gets the bytes of the first record; may change everything but their
  ///   number.
  func changeFirstRecord(_ change: (inout [UInt8]) -> Void) throws {
    try changeSegment { bytes in
      let header = try bytes.withUnsafeBytes { try SegmentHeader(decoding: $0) }
      let start = header.headerLength
      let length = Int(bytes.load(UInt32.self, at: start))
      var record = Array(bytes[start..<start + length])
      change(&record)
      let claimed = Int(record.load(UInt32.self, at: 0))
      // A false length is sealed too, as far as bytes exist.
      bytes.replaceSubrange(start..<start + length, with: record)
      let covered = min(max(claimed, 20), bytes.count - start)
      let checksum = bytes.withUnsafeBytes {
        RecordHeader.checksum(
          of: $0.baseAddress! + start, length: covered, at: UInt64(start),
          seed: header.checksumSeed)
      }
      bytes.store(checksum, at: start + 4)
    }
  }

  func changeSegment(_ change: (inout [UInt8]) throws -> Void) throws {
    let url = try #require(try directory.segments().first)
    var bytes = [UInt8](try Data(contentsOf: url))
    try change(&bytes)
    try Data(bytes).write(to: url)
  }

  /// Returns every file's bytes, to show that nothing changed.
  func contents() throws -> [String: Data] {
    var result: [String: Data] = [:]
    for name in try directory.names() {
      result[name] = try Data(contentsOf: directory.store.appendingPathComponent(name))
    }
    return result
  }
}

extension [UInt8] {
  mutating func store(_ integer: some FixedWidthInteger, at offset: Int) {
    Swift.withUnsafeBytes(of: integer.littleEndian) { raw in
      for (index, byte) in raw.enumerated() { self[offset + index] = byte }
    }
  }

  func load<Integer: FixedWidthInteger>(_ type: Integer.Type, at offset: Int) -> Integer {
    withUnsafeBytes {
      Integer(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: Integer.self))
    }
  }
}
