import Foundation
import MoraineFormat
import Testing

extension Forgery {
  /// Changes the fields of the manifest.
  func changeManifestFields(_ change: (inout Manifest) throws -> Void) throws {
    let url = directory.store.appendingPathComponent(Manifest.fileName)
    let bytes = [UInt8](try Data(contentsOf: url))
    var manifest = try bytes.withUnsafeBytes { try Manifest(decoding: $0) }
    try change(&manifest)
    try Data(manifest.encoded()).write(to: url)
  }

  /// Changes the fields of a segment's header in its file.
  func changeHeader(of segment: URL, _ change: (inout SegmentHeader) -> Void) throws {
    var header = try segment.header
    change(&header)
    try overwrite(segment, at: 0, header.encoded())
  }

  /// Changes the first matching record, but not its length, and corrects its checksum.
  ///
  /// - Parameter change: gets the record's bytes, and its place.
  /// - Returns: the place of the record.
  @discardableResult
  func changeRecord(
    in segment: URL, where isWanted: (RecordPlace) -> Bool,
    _ change: (inout [UInt8], Int) -> Void
  ) throws -> Int {
    let place = try #require(try segment.recordPlaces.first(where: isWanted))
    let bytes = [UInt8](try Data(contentsOf: segment))
    var record = Array(bytes[place.offset..<place.offset + place.header.length])
    change(&record, place.offset)
    let seed = try segment.header.checksumSeed
    let checksum = record.withUnsafeBytes {
      RecordHeader.checksum(
        of: $0.baseAddress!, length: record.count, at: UInt64(place.offset), seed: seed)
    }
    record.store(checksum, at: 4)
    try overwrite(segment, at: place.offset, record)
    return place.offset
  }

  /// Overwrites in place: a process that has the file open sees the bytes.
  func overwrite(_ file: URL, at offset: Int, _ bytes: [UInt8]) throws {
    let handle = try FileHandle(forWritingTo: file)
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: Data(bytes))
    try handle.close()
  }
}

/// A record and its place.
struct RecordPlace {
  let offset: Int
  let header: RecordHeader
  let key: [UInt8]
}

extension URL {
  /// The records of every kind in a segment file.
  var recordPlaces: [RecordPlace] {
    get throws {
      let bytes = [UInt8](try Data(contentsOf: self))
      var place = try header.headerLength
      var result: [RecordPlace] = []
      bytes.withUnsafeBytes { bytes in
        while place + RecordHeader.fixedLength <= bytes.count {
          let base = bytes.baseAddress! + place
          let length = RecordHeader.length(at: base)
          guard length > 0, let record = RecordHeader.parse(base, length: length) else { break }
          let key = bytes[place + record.keyOffset..<place + record.valueOffset]
          result.append(RecordPlace(offset: place, header: record, key: [UInt8](key)))
          place += aligned(length)
        }
      }
      return result
    }
  }
}
