/// The unit that file systems allocate in.
enum FileBlock {
  static let lengthBytes = 4096

  /// A length rounded up to whole blocks.
  static func covering(_ length: Int) -> Int { (length + lengthBytes - 1) & ~(lengthBytes - 1) }
}
