import MoraineStorage

/// The unit that file systems allocate in.
enum FileBlock {
  static let lengthBytes = 4096

  /// A length rounded up to whole blocks.
  static func covering(_ length: Int) -> Int { (length + lengthBytes - 1) & ~(lengthBytes - 1) }
}

/// How the pages ahead of the log are made present, so that no append has to wait for one.
enum Prefaulting {
  /// Not at all: present pages are dirty, so that a sync writes them twice. Where each sync has
  /// little to write, or records are written by calls.
  case none
  /// A fault for each, taken ahead. Beside other processes, who may write there.
  case touching
  /// With zeros, many at a time: less than a quarter of the time, and not much more than half of
  /// that of the sync behind it (measured on ext4 of Linux 6.18).
  case filling

  func prepare(_ file: any StorageFile, _ mapping: any FileMapping, from start: Int, to end: Int) {
    switch self {
    case .none: break
    case .touching: mapping.prefault(from: start, to: end)
    case .filling: file.prefill(mapping, from: start, to: end)
    }
  }
}
