import Foundation
import MoraineStorage
import Testing

/// Pages that are made present ahead of use hold zeros, and the bytes beside them do not change.
@Suite struct PrefillTests {
  @Test func prefillKeepsExistingBytes() throws {
    let ground = try Ground(.disk)
    let file = try ground.directory.createFile("a")
    let length = 300_000
    try file.allocate(from: 0, to: UInt64(length))
    let mapping = try file.map(lengthBytes: length, .readWrite)
    let bytes = mapping.base.assumingMemoryBound(to: UInt8.self)
    for place in 0..<128 { bytes[place] = 7 }
    file.prefill(mapping, from: 128, to: length)
    #expect((0..<128).allSatisfy { bytes[$0] == 7 })
    #expect((128..<length).allSatisfy { bytes[$0] == 0 })
    #expect(try file.lengthBytes() == UInt64(length))
    // The memory is shared: bytes written to the mapping are in the file.
    bytes[200_000] = 9
    var read: [UInt8] = [0]
    let count = try read.withUnsafeMutableBytes { try file.read(into: $0, at: 200_000) }
    #expect(count == 1 && read == [9])
  }

  /// Never beyond the mapping, and no page where the range contains no whole page.
  @Test func prefillStaysWithinTheMapping() throws {
    let ground = try Ground(.disk)
    let file = try ground.directory.createFile("a")
    try file.allocate(from: 0, to: 8192)
    let mapping = try file.map(lengthBytes: 8192, .readWrite)
    file.prefill(mapping, from: 100, to: 1 << 20)
    file.prefill(mapping, from: 8000, to: 8192)
    #expect(try file.lengthBytes() == 8192)
  }
}
