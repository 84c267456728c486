import MoraineFormat

/// A large value that is to be written. It is compressed once, however often room must be made for
/// it.
///
/// Only the actor uses this object, for one operation. All calls pass the same value.
final class PreparedValue {
  /// Size up to which a value is compressed for each attempt, in the buffer that all operations
  /// share.
  static let sharedBufferLimit = 64 << 10

  private var compressor: Compressor?
  /// Nil before the first attempt; then the compressed bytes, or nil where compression saves too
  /// little.
  private var compressed: UnsafeRawBufferPointer??
  var isCompressed: Bool { compressed != nil }

  /// Returns the compressed bytes, valid as long as this object exists; nil when the value is
  /// stored uncompressed.
  func compressed(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    if let compressed { return compressed }
    var compressor = Compressor()
    let result = compressor.compress(value)
    compressed = .some(result)
    // Without a result, the compressor's buffer, which is as large as the value, is not needed any
    // more.
    if result != nil { self.compressor = consume compressor }
    return result
  }
}
