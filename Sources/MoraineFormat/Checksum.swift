import CMoraineShims

/// CRC-32C, as `FileFormat.md` defines it.
@frozen
package struct Checksum: Equatable, Sendable {
  package var value: UInt32

  @inlinable
  package init(_ value: UInt32 = 0) {
    self.value = value
  }

  @inlinable
  package mutating func update(_ bytes: UnsafeRawBufferPointer) {
    guard let base = bytes.baseAddress else { return }
    value = moraine_crc32c(value, base, bytes.count)
  }

  @inlinable
  package mutating func update(_ integer: UInt64) {
    withUnsafeBytes(of: integer.littleEndian) { update($0) }
  }

  package static func of(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
    var checksum = Checksum()
    checksum.update(bytes)
    return checksum.value
  }

  package static func of(_ bytes: [UInt8]) -> UInt32 {
    bytes.withUnsafeBytes { of($0) }
  }
}
