import Foundation
import MoraineFormat
import Testing

/// Changes an index checkpoint and corrects every checksum.
struct CheckpointForgery {
  let directory: TestDirectory

  func url() throws -> URL {
    let names = try directory.names().filter { $0.hasSuffix(".index") }
    try #require(names.count == 1, "\(names)")
    return directory.store.appendingPathComponent(names[0])
  }

  /// - Parameter change: gets the header, and the bytes of the whole file for changes of the pages.
  func change(_ change: (inout CheckpointHeader, inout [UInt8]) throws -> Void) throws {
    let url = try url()
    var bytes = [UInt8](try Data(contentsOf: url))
    let claim = try bytes.withUnsafeBytes { try CheckpointHeader.claimedLength($0) }
    var header = try bytes.withUnsafeBytes {
      try CheckpointHeader(decoding: UnsafeRawBufferPointer(rebasing: $0[..<claim]))
    }
    try change(&header, &bytes)
    for page in header.pageChecksums.indices {
      let start = claim + page * CheckpointHeader.pageBytes
      bytes.withUnsafeBytes {
        let image = UnsafeRawBufferPointer(
          rebasing: $0[start..<start + CheckpointHeader.pageBytes])
        header.pageChecksums[page] = header.checksum(ofPage: page, image)
      }
    }
    bytes.replaceSubrange(0..<claim, with: header.encoded())
    try Data(bytes).write(to: url)
  }
}
