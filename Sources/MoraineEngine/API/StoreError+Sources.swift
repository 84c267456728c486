import MoraineFormat
import MoraineStorage

extension StoreError {
  /// A failed operation of the storage layer.
  init(_ error: StorageError) {
    if error.isNoSpace {
      self.init(
        .noSpace, "no space left to \(error.operation); free some and try again",
        file: error.file, offset: error.offset, errno: error.errno)
    } else if error.isReplaced {
      self.init(
        .storeReplaced,
        "\(error.file) was deleted, moved or replaced while the store was open; open the path "
          + "again to go on with what is there now", file: error.file, errno: error.errno)
    } else if error.isLimit {
      self.init(
        .limitExceeded,
        "could not \(error.operation): \(error.errno); free some or raise the limit, and try again",
        file: error.file.isEmpty ? nil : error.file, offset: error.offset, errno: error.errno)
    } else {
      self.init(
        .io, "could not \(error.operation): \(error.errno)",
        file: error.file, offset: error.offset, errno: error.errno)
    }
  }

  /// Bytes that are not what the format says.
  init(_ error: FormatError, file: String) {
    switch error.kind {
    case .damaged:
      self.init(
        .corrupted, "\(error.reason); restore the store from a backup", file: file,
        offset: error.offset)
    case .newer:
      self.init(
        .newerFormat, "\(error.reason): written by a newer version of Moraine; update this program",
        file: file, offset: error.offset)
    }
  }

  static func corrupted(_ what: String, _ file: String, at offset: Int) -> StoreError {
    StoreError(
      .corrupted, "\(what); restore the store from a backup", file: file, offset: UInt64(offset))
  }

  /// An index that does not fit the log.
  ///
  /// - Parameter checkpoint: the file that it was loaded from, where there is one.
  static func indexDamaged(_ what: String, _ checkpoint: String?) -> StoreError {
    StoreError(
      .corrupted,
      "\(what); its *.index may be removed while the store is closed: the log is read then",
      file: checkpoint)
  }
}

/// Runs calls of the storage layer, with its errors told as the store's.
func storing<Result>(
  _ body: () throws(StorageError) -> Result
) throws(StoreError) -> Result {
  do throws(StorageError) { return try body() } catch { throw StoreError(error) }
}
