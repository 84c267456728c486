package import MoraineFormat

extension ArchiveError {
  /// Creates the error for bytes of an object that violate the format.
  package init(_ error: FormatError, object: ObjectName) {
    let offset = Int(clamping: error.offset)
    switch error.kind {
    case .damaged: self.init(.damaged, error.reason, object: object, offset: offset)
    case .newer:
      self.init(
        .newerFormat,
        "\(error.reason): written by a newer version of Moraine; update this program",
        object: object, offset: offset)
    }
  }
}
