import MoraineFormat

/// A large value on its way into the log, compressed once however often room must be made for it.
///
/// Used by the actor alone, for one operation. The value that it is asked about is always the same.
final class PreparedValue {
  /// Shorter values are compressed for each attempt, in the buffer that all operations share.
  static let leastBytes = 64 << 10

  private var compressor: Compressor?
  /// Nil before the first attempt; then what the value is stored as, or nil where compressing it
  /// saves too little.
  private var compressed: UnsafeRawBufferPointer??
  var isCompressed: Bool { compressed != nil }

  /// The compressed bytes, valid as long as this object; nil when the value is stored as it is.
  func compressed(_ value: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
    if let compressed { return compressed }
    var compressor = Compressor()
    let result = compressor.compress(value)
    compressed = .some(result)
    // Without a result its buffer, which is as large as the value, is not needed any more.
    if result != nil { self.compressor = consume compressor }
    return result
  }
}
