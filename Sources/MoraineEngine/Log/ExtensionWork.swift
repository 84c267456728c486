import MoraineStorage

/// Allocates more of the active segment, on the committing thread.
struct ExtensionWork: Sendable {
  let file: any StorageFile
  let mapping: (any FileMapping)?
  let from: Int
  let wish: Int
  let least: Int
  let prefaulting: Prefaulting

  /// - Returns: where the allocated part ends now.
  func run() throws(StorageError) -> Int {
    var end = wish
    do throws(StorageError) {
      try file.allocate(from: UInt64(from), to: UInt64(wish))
    } catch {
      guard error.isNoSpace, least < wish else { throw error }
      try file.allocate(from: UInt64(from), to: UInt64(least))
      end = least
    }
    if let mapping { prefaulting.prepare(file, mapping, from: from, to: end) }
    return end
  }
}
